#include "experiments/attention/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

HeadReference::HeadReference(const AttentionShape& shape, const std::vector<std::int64_t>& rows)
    : shape_(shape), rows_(rows) {}

std::int64_t HeadReference::visible(std::int64_t query) const {
  return shape_.causal ? query + 1 : shape_.context;
}

const HeadResults& HeadReference::compute(const HeadRows& q, const HeadRows& k, const HeadRows& v,
                                          const HeadRows& d_o) {
  const auto rows = static_cast<std::int64_t>(rows_.size());
  const std::int64_t d = shape_.head_dim;
  results_ = {.o = zeros(rows * d),
              .logsumexp = zeros(rows),
              .dq = zeros(rows * d),
              .dk = zeros(shape_.context * d),
              .dv = zeros(shape_.context * d)};
  constexpr std::int64_t together = 64;  // rows of P and dS in memory
  // Less is done before the other threads are awake.
  const bool threads = std::min(together, rows) * shape_.context * d >= std::int64_t{1} << 18U;
  for (std::int64_t first = 0; first < rows; first += together) {
    const std::int64_t count = std::min(together, rows - first);
    p_.resize(static_cast<std::size_t>(count * shape_.context));
    ds_.resize(p_.size());
#pragma omp parallel for schedule(dynamic) if (threads)
    for (std::int64_t r = 0; r < count; ++r) query_row(first + r, r, q, k, v, d_o);
#pragma omp parallel for schedule(static) if (threads)
    for (std::int64_t j = 0; j < shape_.context; ++j) key_row(j, first, count, q, d_o);
  }
  return results_;
}

// Row `at` of those asked for; its P and dS go to row `place` of those in memory.
void HeadReference::query_row(std::int64_t at, std::int64_t place, const HeadRows& q,
                              const HeadRows& k, const HeadRows& v, const HeadRows& d_o) {
  const std::int64_t i = rows_[static_cast<std::size_t>(at)];
  const std::int64_t n = visible(i);
  const std::int64_t d = shape_.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  double* p = p_.data() + place * shape_.context;
  double* ds = ds_.data() + place * shape_.context;
  double* o = results_.o.data() + at * d;
  double* dq = results_.dq.data() + at * d;
  double highest = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < n; ++j) {
    p[j] = scale * dot(q[i], k[j], d);
    highest = std::max(highest, p[j]);
  }
  double sum = 0;
  for (std::int64_t j = 0; j < n; ++j) sum += p[j] = std::exp(p[j] - highest);
  results_.logsumexp[static_cast<std::size_t>(at)] = highest + std::log(sum);
  for (std::int64_t j = 0; j < n; ++j) {
    p[j] /= sum;
    add(o, p[j], v[j], d);
  }
  const double delta = dot(o, d_o[i], d);
  for (std::int64_t j = 0; j < n; ++j) {
    ds[j] = scale * p[j] * (dot(d_o[i], v[j], d) - delta);
    add(dq, ds[j], k[j], d);
  }
}

// What the rows in memory, of which `first` is the first, add to dK and dV of one key.
void HeadReference::key_row(std::int64_t key, std::int64_t first, std::int64_t count,
                            const HeadRows& q, const HeadRows& d_o) {
  const std::int64_t d = shape_.head_dim;
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t i = rows_[static_cast<std::size_t>(first + r)];
    if (key >= visible(i)) continue;
    const auto at = static_cast<std::size_t>(r * shape_.context + key);
    add(results_.dk.data() + key * d, ds_[at], q[i], d);
    add(results_.dv.data() + key * d, p_[at], d_o[i], d);
  }
}

}  // namespace paceline
