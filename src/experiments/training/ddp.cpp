#include "experiments/training/ddp.h"

#include "core/error.h"

namespace paceline {

DdpExperiment::DdpExperiment(const Options& options, World& world, Device& device,
                             Communicator& communicator)
    : ModelExperiment(options, world, device), communicator_(communicator) {}

std::vector<std::string> DdpExperiment::naming_factors() const {
  std::vector<std::string> factors = ModelExperiment::naming_factors();
  factors.insert(factors.end(), {"sync", "bucket_mb", "comm_dtype", "registration"});
  return factors;
}

std::vector<Case> DdpExperiment::cases() const {
  const DdpOptions& d = options().ddp;
  const auto alone = [](const Case& c) { return c.text("sync") == "none"; };
  const auto unless_alone = [&](const std::vector<std::string>& values) {
    return [alone, values](const Case& c) {
      return alone(c) ? std::vector<std::string>{"none"} : values;
    };
  };
  std::vector<Case> cases = with_axis(model_cases(), "sync", [&](const Case&) { return d.syncs; });
  cases = with_axis(cases, "bucket_mb", [&](const Case& c) {
    return c.text("sync") == "bucketed" ? d.bucket_mb : std::vector<double>{0};
  });
  cases = with_axis(cases, "comm_dtype", unless_alone(d.comm_dtypes));
  cases = with_axis(cases, "registration", unless_alone(registrations()));
  for (Case& c : cases) c.set("verify", std::int64_t{alone(c) ? 0 : d.verify});
  return without_repeats(std::move(cases));
}

void DdpExperiment::validate(const Case& c) const {
  ModelExperiment::validate(c);
  if (c.text("comm_dtype") == "bf16" && c.text("precision") == "fp16") {
    throw UsageError("--comm-dtype: bf16 cannot stand beside --precision fp16; use fp32");
  }
  if (c.text("registration") == "symmetric") {
    if (communicator_.backend() == "mpi") {
      throw UsageError("--registration: only nccl registers memory; use none");
    }
    if (world().local_size() < world().size()) {
      throw EnvironmentError("--registration: symmetric windows want all ranks on one node");
    }
  }
  check_prediction(c);
}

std::vector<std::string> DdpExperiment::registrations() const {
  if (!options().ddp.registrations.empty()) return options().ddp.registrations;
  const bool one_node = world().local_size() == world().size();
  return {communicator_.backend() == "nccl" && one_node ? "symmetric" : "none"};
}

// Shards, whether the case has any or not: its memory is then laid out as that of one that has.
StoreLayout DdpExperiment::store_layout(const Case& c) const {
  StoreLayout layout{.shards = world().size(), .allocate = {}};
  if (c.text("registration") == "symmetric") {
    layout.allocate = [this](const Shape& shape, Dtype dtype, MemoryKind kind) {
      return communicator_.allocate(shape, dtype, kind);
    };
  }
  return layout;
}

SyncConfig DdpExperiment::sync_config(const Case& c) {
  constexpr double mega = 1e6;
  return {.bucket_bytes = mega * c.real("bucket_mb"),
          .registered = c.text("registration") == "symmetric"};
}

std::unique_ptr<GradientSync> DdpExperiment::make_exchange(const Case& c, TrainingStep& step) {
  SyncConfig config = sync_config(c);
  config.strategy = sync_strategy_named(c.text("sync"));
  if (config.strategy == SyncStrategy::none) return nullptr;
  return std::make_unique<GradientSync>(step.model().store(), step.ops(), communicator_, config);
}

std::vector<ShownColumn> DdpExperiment::shown_columns() const {
  return {{"communication_calls", "calls"}, {"communication_bytes", "sent"},
          {"communication_share", "share"}, {"exposed_share", "exposed"},
          {"tokens_per_s", "rate"},         {"mfu_measured", "MFU"},
          {"peak_bytes", "peak"},           {"loss", "loss"}};
}

std::string DdpExperiment::notes() const {
  const std::string predict =
      options().ddp.predict.empty()
          ? ""
          : "predict: with n buckets of s bytes in all, latency o, bandwidth w: overhead n o + s / "
            "(n "
            "w), least for buckets of\nsqrt(s o w) bytes; measured best: of the fastest step\n";
  return "times: median over repetitions of the slowest rank. communication_total: the "
         "all_reduces' "
         "own time; _exposed: from\nbackward's end until the last of them; share, exposed: of the "
         "step. Gradients: of the mean over all ranks' rows, added up.\nMFU: model FLOPs over "
         "the best GEMM "
         "measured here\n" +
         predict;
}

}  // namespace paceline
