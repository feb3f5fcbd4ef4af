#include "experiments/attention/attention_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/random.h"

namespace paceline {

namespace {

std::vector<float> rounded_normals(std::int64_t n, Dtype dtype, const Random& random) {
  std::vector<float> x(static_cast<std::size_t>(n));
  random.fill_normal(x);
  dispatch_floating(dtype, [&]<class T>() {
#pragma omp parallel for schedule(static)
    for (float& v : x) v = static_cast<float>(static_cast<T>(v));
  });
  return x;
}

// A view of host memory.
Tensor on_host(const std::vector<float>& x, const Shape& shape) {
  return {const_cast<float*>(x.data()), shape, Dtype::f32};  // NOLINT: only read
}

Shape packed(const AttentionShape& s) { return {s.batch, s.context, 3, s.heads, s.head_dim}; }
Shape unpacked(const AttentionShape& s) { return {s.batch, s.context, s.heads, s.head_dim}; }

// Sums of squares of one output, and the largest error of one of its rows.
struct Distance {
  double difference = 0;
  double norm = 0;
  double of_row = 0;

  void add_row(const float* got, const double* want, std::int64_t n, double least) {
    Distance row;
    for (std::int64_t j = 0; j < n; ++j) {
      row.difference += (got[j] - want[j]) * (got[j] - want[j]);
      row.norm += want[j] * want[j];
    }
    difference += row.difference;
    norm += row.norm;
    const double error = row.relative(least);
    of_row = std::max(of_row, std::isnan(error) ? HUGE_VAL : error);
  }
  [[nodiscard]] double relative(double least) const {
    return std::sqrt(difference) / std::max(std::sqrt(norm), least);
  }
};

struct Tolerances {
  double outputs;
  double logsumexp;
};

// Naive and fused attention have larger tolerances than flash: they also round the scores, P and dS
// to a half type.
Tolerances tolerances_of_wide_heads(const OpsConfig& config) {
  const bool flash = config.attention == AttentionKind::flash;
  const Precision& p = config.precision;
  if (p.compute == Dtype::bf16) return {flash ? 5e-3 : 2e-2, 1e-5};
  if (p.compute == Dtype::f16) return {flash ? 1e-3 : 3e-3, 1e-5};
  if (!flash) return {p.gemm == GemmMath::tf32 ? 3e-3 : 5e-6, 1e-5};
  if (config.fp32_attention == Fp32Attention::bf16x3) return {2e-5, 5e-5};
  if (config.fp32_attention == Fp32Attention::tf32) return {1e-3, 2e-3};
  return {2e-6, 1e-5};
}

// Rounding errors of a score's products average out over the elements of a head. With few elements
// they are larger: errors up to 4.7 times the tolerance were measured for head_dim 1, 1.7 times
// for 4.
Tolerances tolerances_of(const OpsConfig& config, std::int64_t head_dim) {
  constexpr double of_one_element = 6;
  const double room = std::max(1.0, of_one_element / std::sqrt(static_cast<double>(head_dim)));
  const Tolerances wide = tolerances_of_wide_heads(config);
  return {room * wide.outputs, room * wide.logsumexp};
}

// Adds the rows on both sides of the first and the last edge between tiles of `size` rows, and of
// some edges between these.
void add_edges(std::vector<std::int64_t>& rows, std::int64_t context, std::int64_t size) {
  constexpr std::int64_t most = 8;
  if (size == 0) return;
  const std::int64_t edges = (context - 1) / size;
  const std::int64_t count = std::min(edges, most);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t edge = size * (1 + i * (edges - 1) / std::max<std::int64_t>(count - 1, 1));
    rows.insert(rows.end(), {edge - 1, edge});
  }
}

}  // namespace

AttentionInputs::AttentionInputs(const AttentionShape& of, Dtype dtype, std::uint64_t seed,
                                 int rank)
    : shape(of),
      qkv(rounded_normals(packed(of).numel(), dtype,
                          Random(seed, 2 * static_cast<std::uint64_t>(rank)))),
      d_o(rounded_normals(unpacked(of).numel(), dtype,
                          Random(seed, 2 * static_cast<std::uint64_t>(rank) + 1))) {}

std::vector<std::int64_t> checked_rows(const AttentionShape& shape, std::uint64_t seed,
                                       const FlashPlan& tiles) {
  constexpr std::int64_t budget = std::int64_t{1} << 30;  // terms of one product
  constexpr std::int64_t stride = 128;                    // at least one row of every 128
  const std::int64_t T = shape.context;
  const std::int64_t per_row = shape.batch * shape.heads * T * shape.head_dim;
  const std::int64_t count = std::min(T, std::max(budget / per_row, (T + stride - 1) / stride));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  const Random random(seed, std::uint64_t{1} << 62U);
  // Stratified sampling: a random one of the rows first ... end - 1.
  random.for_each(0, rows.size(), [&](std::uint64_t i, double u) {
    const std::int64_t first = static_cast<std::int64_t>(i) * T / count;
    const std::int64_t end = static_cast<std::int64_t>(i + 1) * T / count;
    rows[i] = first + static_cast<std::int64_t>(u * static_cast<double>(end - first));
  });
  rows.insert(rows.end(), {0, T - 1});
  for (const std::int64_t size :
       {std::int64_t{64}, std::int64_t{128}, tiles.forward.queries, tiles.forward.keys,
        tiles.backward.queries, tiles.backward.keys}) {
    add_edges(rows, T, size);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

std::vector<float> gradient_of_rows(const AttentionInputs& inputs,
                                    const std::vector<std::int64_t>& rows) {
  const AttentionShape& s = inputs.shape;
  const std::int64_t row = s.heads * s.head_dim;
  std::vector<float> d_o(inputs.d_o.size());
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (const std::int64_t t : rows) {
      const auto first = inputs.d_o.begin() + (b * s.context + t) * row;
      std::copy(first, first + row, d_o.begin() + (b * s.context + t) * row);
    }
  }
  return d_o;
}

std::vector<OutputError> attention_errors(const AttentionInputs& inputs,
                                          const std::vector<std::int64_t>& rows,
                                          const AttentionResults& got, const OpsConfig& config) {
  const AttentionShape& s = inputs.shape;
  const QkvHeads in(on_host(inputs.qkv, packed(s)));
  const Heads d_o(on_host(inputs.d_o, unpacked(s)));
  const Heads o(on_host(got.o, unpacked(s)));
  const QkvHeads d(on_host(got.dqkv, packed(s)));
  Distance of_o;
  Distance of_dq;
  Distance of_dk;
  Distance of_dv;
  double of_logsumexp = 0;
  const std::vector<double> zeros(static_cast<std::size_t>(s.head_dim));
  const double least_weight = 1 / static_cast<double>(s.context * s.context);
  const auto norm_of = [&](double weight) {
    return std::sqrt(static_cast<double>(s.head_dim) * std::max(weight, least_weight));
  };
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
    const std::int64_t b = head / s.heads;
    const std::int64_t h = head % s.heads;
    const auto of_head = [&](const Heads& x) { return HeadRows(x, b, h); };
    const HeadResults want =
        head_reference(s, rows, of_head(in.q), of_head(in.k), of_head(in.v), of_head(d_o));
    std::size_t next = 0;  // index into `rows`
    for (std::int64_t t = 0; t < s.context; ++t) {
      const double of_key = norm_of(want.key_weight[static_cast<std::size_t>(t)]);
      of_dk.add_row(of_head(d.k)[t], want.dk.data() + t * s.head_dim, s.head_dim, of_key);
      of_dv.add_row(of_head(d.v)[t], want.dv.data() + t * s.head_dim, s.head_dim, of_key);
      if (next == rows.size() || rows[next] != t) {
        of_dq.add_row(of_head(d.q)[t], zeros.data(), s.head_dim, norm_of(0));
        continue;
      }
      const auto at = static_cast<std::int64_t>(next) * s.head_dim;
      const double of_query = norm_of(want.query_weight[next]);
      of_o.add_row(of_head(o)[t], want.o.data() + at, s.head_dim, of_query);
      of_dq.add_row(of_head(d.q)[t], want.dq.data() + at, s.head_dim, of_query);
      if (!got.logsumexp.empty()) {
        const auto i = static_cast<std::size_t>(head * s.context + t);
        const double error = std::abs(got.logsumexp[i] - want.logsumexp[next]);
        of_logsumexp = std::max(of_logsumexp, std::isnan(error) ? HUGE_VAL : error);
      }
      ++next;
    }
  }
  const Tolerances tolerances = tolerances_of(config, s.head_dim);
  const auto compared =
      static_cast<double>(rows.size()) * static_cast<double>(s.batch * s.heads * s.head_dim);
  const double least = std::sqrt(compared / static_cast<double>(s.context));
  constexpr double of_row = 8;  // the largest error of many rows, over the error of all
  std::vector<OutputError> errors;
  for (const auto& [name, distance] : {std::pair("o", of_o), std::pair("dq", of_dq),
                                       std::pair("dk", of_dk), std::pair("dv", of_dv)}) {
    errors.push_back({name, distance.relative(least), tolerances.outputs});
    errors.push_back({fmt::format("{}_row", name), distance.of_row, of_row * tolerances.outputs});
  }
  if (!got.logsumexp.empty()) errors.push_back({"logsumexp", of_logsumexp, tolerances.logsumexp});
  return errors;
}

}  // namespace paceline
