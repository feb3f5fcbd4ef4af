#include "experiments/training/bucket_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace paceline {

namespace {

// The case with the fastest step among those that differ only in --bucket-mb.
const MeasuredBuckets& fastest_like(const MeasuredBuckets& one,
                                    const std::vector<MeasuredBuckets>& measured) {
  const MeasuredBuckets* best = &one;
  for (const MeasuredBuckets& other : measured) {
    TrainingCase factors = other.factors;
    factors.bucket_mb = one.factors.bucket_mb;
    if (factors == one.factors && other.step < best->step) best = &other;
  }
  return *best;
}

}  // namespace

Link read_link(const std::string& path, const Communicator& communicator, const TrainingCase& c) {
  const std::string_view backend = name_of(communicator.backend());
  const std::string_view dtype =
      name_of(c.comm_dtype == GradientDtype::bf16 ? Dtype::bf16 : Dtype::f32);
  for (const FittedLink& f : read_rates(path).links) {
    if (f.op == "all_reduce" && f.backend == backend && f.dtype == dtype && f.ranks == c.ranks) {
      return f.link;
    }
  }
  throw UsageError(
      fmt::format("--predict: {} has no fit of all_reduce, {}, {}, {} ranks; make it with "
                  "paceline-analysis rates from a file of collectives --fit",
                  path, backend, dtype, c.ranks));
}

double best_bucket_bytes(double bytes, double latency, double bandwidth) {
  return std::min(bytes, std::sqrt(bytes * latency * bandwidth));
}

std::vector<Table> prediction_tables(const std::vector<MeasuredBuckets>& measured) {
  if (measured.empty()) return {};
  constexpr double mega = 1e6;
  TableRows rows("predict");
  for (const MeasuredBuckets& m : measured) {
    const auto [latency, bandwidth] = m.link;
    rows.add({{"case", m.name},
              {"bucket_mb", m.factors.bucket_mb},
              {"buckets", m.calls},
              {"predicted_overhead_s", m.calls * latency + m.bytes / (m.calls * bandwidth)},
              {"measured_exposed_s", m.exposed},
              {"measured_step_s", m.step},
              {"predicted_best_bucket_mb", best_bucket_bytes(m.bytes, latency, bandwidth) / mega},
              {"measured_best_bucket_mb", fastest_like(m, measured).factors.bucket_mb}});
  }
  return {rows.take()};
}

}  // namespace paceline
