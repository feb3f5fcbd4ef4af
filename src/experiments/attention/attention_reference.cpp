#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/attention/attention_check.h"

namespace paceline {

namespace {

template <class A>
double dot(const A* a, const float* b, std::int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(a[j]) * b[j];
  return sum;
}

// y += factor x
void add(double* y, double factor, const float* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j) y[j] += factor * x[j];
}

std::vector<double> zeros(std::int64_t n) {
  return std::vector<double>(static_cast<std::size_t>(n));
}

}  // namespace

HeadResults head_reference(const AttentionShape& shape, const std::vector<std::int64_t>& rows,
                           const HeadRows& q, const HeadRows& k, const HeadRows& v,
                           const HeadRows& d_o) {
  const auto row_count = static_cast<std::int64_t>(rows.size());
  const std::int64_t T = shape.context;
  const std::int64_t d = shape.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto visible = [&](std::int64_t query) { return shape.causal ? query + 1 : T; };
  HeadResults results{.o = zeros(row_count * d),
                      .logsumexp = zeros(row_count),
                      .dq = zeros(row_count * d),
                      .dk = zeros(T * d),
                      .dv = zeros(T * d),
                      .query_weight = zeros(row_count),
                      .key_weight = zeros(T)};
  constexpr std::int64_t block = 64;  // rows of P and dS in memory at a time
  std::vector<double> p_rows = zeros(std::min(block, row_count) * T);  // [block, T]
  std::vector<double> ds_rows = p_rows;                                // scale dS

  // Computes O, logsumexp and dQ of query rows[at]; its P and dS are kept in row `place` of the
  // block.
  const auto query_row = [&](std::int64_t at, std::int64_t place) {
    const std::int64_t i = rows[static_cast<std::size_t>(at)];
    const std::int64_t n = visible(i);
    double* p = p_rows.data() + place * T;
    double* ds = ds_rows.data() + place * T;
    double* o = results.o.data() + at * d;
    double* dq = results.dq.data() + at * d;
    double highest = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < n; ++j) {
      p[j] = scale * dot(q[i], k[j], d);
      highest = std::max(highest, p[j]);
    }
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += p[j] = std::exp(p[j] - highest);
    results.logsumexp[static_cast<std::size_t>(at)] = highest + std::log(sum);
    for (std::int64_t j = 0; j < n; ++j) {
      p[j] /= sum;
      results.query_weight[static_cast<std::size_t>(at)] += p[j] * p[j];
      add(o, p[j], v[j], d);
    }
    const double delta = dot(o, d_o[i], d);
    for (std::int64_t j = 0; j < n; ++j) {
      ds[j] = scale * p[j] * (dot(d_o[i], v[j], d) - delta);
      add(dq, ds[j], k[j], d);
    }
  };
  // Adds the block's rows, of queries rows[first], rows[first + 1], ..., to dK and dV of one key.
  const auto key_row = [&](std::int64_t key, std::int64_t first, std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t i = rows[static_cast<std::size_t>(first + r)];
      if (key >= visible(i)) continue;
      const auto at = static_cast<std::size_t>(r * T + key);
      add(results.dk.data() + key * d, ds_rows[at], q[i], d);
      add(results.dv.data() + key * d, p_rows[at], d_o[i], d);
      results.key_weight[static_cast<std::size_t>(key)] += p_rows[at] * p_rows[at];
    }
  };

  // Smaller blocks are faster on one thread: waking the others takes longer than the work.
  const bool threads = std::min(block, row_count) * T * d >= std::int64_t{1} << 18U;
  for (std::int64_t first = 0; first < row_count; first += block) {
    const std::int64_t count = std::min(block, row_count - first);
#pragma omp parallel for schedule(dynamic) if (threads)
    for (std::int64_t r = 0; r < count; ++r) query_row(first + r, r);
#pragma omp parallel for schedule(static) if (threads)
    for (std::int64_t j = 0; j < T; ++j) key_row(j, first, count);
  }
  return results;
}

}  // namespace paceline
