// What `ddp` and `zero` share on the command line.

#include <algorithm>

#include "core/error.h"
#include "harness/run_options.h"

namespace paceline {

std::vector<std::string> course_preset() {
  std::vector<std::string> preset = pinned_model_options();
  const auto at = [&](const char* name) { return std::find(preset.begin(), preset.end(), name); };
  *(at("--size") + 1) = "xl";
  *(at("--timing") + 1) = "step";
  *at("--batch-size") = "--global-batch";
  return preset;
}

void add_exchange_options(OptionParser& p, DdpOptions& d, int verify_steps) {
  p.reals("--bucket-mb", d.bucket_mb, 0, 1e9,
          "a bucket holds at most so many MB of gradients, a,b [25]");
  p.choices("--comm-dtype", d.comm_dtypes, {"fp32", "bf16"},
            "what gradients are sent as: fp32 bf16, a,b [fp32]");
  p.choices("--registration", d.registrations, {"none", "symmetric"},
            "none, or symmetric: parameters and gradients lie in windows that all ranks have "
            "registered with NCCL, whose collectives then need fewer of the GPU's multiprocessors, "
            "a,b [symmetric with NCCL on one node, else none]");
  p.optional_integer("--verify", d.verify, verify_steps, 1, 1000,
                     "so many steps of SGD, then of AdamW, must equal a single process's on the "
                     "whole batch (fp32) [bare: " +
                         std::to_string(verify_steps) + "]");
}

void check_exchange_options(const Options& o) {
  using Values = std::vector<std::string>;
  const DdpOptions& d = o.ddp;
  for (const std::string& mode : o.model.modes) {
    if (mode != "train-step" && (mode != "forward-backward" || o.experiment == "zero")) {
      throw UsageError(o.experiment == "zero"
                           ? "--mode: " + mode + " has no optimizer; use train-step"
                           : "--mode: " + mode +
                                 " has no gradients; use train-step or forward-backward");
    }
  }
  if (d.verify == 0) return;
  if (o.model.precisions != Values{"fp32"} || d.comm_dtypes != Values{"fp32"}) {
    throw UsageError("--verify: compares in fp32; leave out other --precision and --comm-dtype");
  }
  if (o.model.modes != Values{"train-step"}) {
    throw UsageError("--verify: trains; leave out --mode");
  }
}

}  // namespace paceline
