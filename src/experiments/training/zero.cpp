#include "experiments/training/zero.h"

#include <algorithm>

#include "parallel/optimizer_sharding.h"

namespace paceline {

std::vector<std::string> ZeroExperiment::naming_factors() const {
  std::vector<std::string> factors = DdpExperiment::naming_factors();
  std::replace(factors.begin(), factors.end(), std::string("sync"), std::string("shard"));
  return factors;
}

std::vector<Case> ZeroExperiment::cases() const {
  const DdpOptions& d = options().ddp;
  std::vector<Case> cases =
      with_axis(model_cases(), "shard", [&](const Case&) { return d.shards; });
  cases = with_axis(cases, "bucket_mb", [&](const Case&) { return d.bucket_mb; });
  cases = with_axis(cases, "comm_dtype", [&](const Case&) { return d.comm_dtypes; });
  cases = with_axis(cases, "registration", [&](const Case&) { return registrations(); });
  for (Case& c : cases) c.set("verify", std::int64_t{d.verify});
  return cases;
}

std::vector<double> ZeroExperiment::optimizer_shares(const Case& c) const {
  const int n = world().size();
  switch (shard_strategy_named(c.text("shard"))) {
    case ShardStrategy::none: return {1};
    case ShardStrategy::zero1: return {1.0 / n};
    case ShardStrategy::broadcast: break;
  }
  const std::vector<ParameterEntry> entries = Transformer::entries({.vocab = c.integer("vocab"),
                                                                    .context = c.integer("context"),
                                                                    .d_model = c.integer("d_model"),
                                                                    .d_ff = c.integer("d_ff"),
                                                                    .layers = c.integer("layers"),
                                                                    .heads = c.integer("heads")});
  const std::vector<int> owners = owners_of(entries, n);
  std::vector<double> shares(static_cast<std::size_t>(n), 0);
  double all = 0;
  for (std::size_t id = 0; id < entries.size(); ++id) {
    const auto elements = static_cast<double>(entries[id].shape.numel());
    shares[static_cast<std::size_t>(owners[id])] += elements;
    all += elements;
  }
  for (double& share : shares) share /= all;
  return shares;
}

std::unique_ptr<GradientSync> ZeroExperiment::make_exchange(const Case& c, TrainingStep& step) {
  const SyncConfig config = sync_config(c);
  ParameterStore& store = step.model().store();
  switch (shard_strategy_named(c.text("shard"))) {
    case ShardStrategy::none: break;
    case ShardStrategy::broadcast:
      return std::make_unique<OwnerBroadcast>(store, step.ops(), communicator(), config);
    case ShardStrategy::zero1:
      return std::make_unique<Zero1>(store, step.ops(), communicator(), config);
  }
  return std::make_unique<GradientSync>(store, step.ops(), communicator(), config);
}

std::vector<ShownColumn> ZeroExperiment::shown_columns() const {
  return {{"communication_calls", "calls"}, {"communication_sent_bytes", "sent"},
          {"exposed_share", "exposed"},     {"tokens_per_s", "rate"},
          {"mfu_measured", "MFU"},          {"optimizer_state_bytes", "state"},
          {"peak_bytes", "peak"},           {"loss", "loss"}};
}

std::string ZeroExperiment::notes() const {
  return "times: median over repetitions of the slowest rank. communication_total: the "
         "collectives' own time; _exposed: from\nbackward's end until the last gradients are "
         "there, and what forward, or the step's end, waits for parameters. sent:\nby a rank in "
         "one step, in rings; state: Adam's, on the rank with the most\n";
}

}  // namespace paceline
