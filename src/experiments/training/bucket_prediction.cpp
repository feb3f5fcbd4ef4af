#include "experiments/training/bucket_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "record/hdf5.h"
#include "record/untrusted_file.h"

namespace paceline {

namespace {

std::optional<FittedLink> find_link(const std::vector<FittedLink>& fitted, std::string_view backend,
                                    std::string_view dtype, std::int64_t ranks) {
  const FittedLink* best = nullptr;
  for (const FittedLink& f : fitted) {
    const bool fits =
        f.op == "all_reduce" && f.backend == backend && f.dtype == dtype && f.ranks == ranks;
    if (!fits || (best && distance_from_training(*best) <= distance_from_training(f))) continue;
    best = &f;
  }
  return best ? std::optional(*best) : std::nullopt;
}

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
  if (!std::filesystem::exists(path)) {
    throw UsageError(
        fmt::format("--predict: {} does not exist; make it with collectives --fit", path));
  }
  std::optional<FittedLink> fitted;
  require_readable(path);
  try {
    fitted = find_link(read_fitted_links(path), backend, dtype, c.ranks);
  } catch (const Hdf5Error& error) {
    throw UsageError(fmt::format("--predict: {} holds no fit ({}); make it with collectives --fit",
                                 path, error.what()));
  }
  if (!fitted) {
    throw UsageError(
        fmt::format("--predict: {} has no fit of all_reduce, {}, {}, {} ranks; make it with "
                    "collectives --fit",
                    path, backend, dtype, c.ranks));
  }
  require_finite_bandwidth(*fitted, "--predict");
  return fitted->link;
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
