#pragma once
// The time of a rank's steps by kernel, by scope and by phase (the outermost scope). Seconds,
// calls, FLOPs and bytes are per step: means over all steps.

#include <string>
#include <string_view>
#include <vector>

#include "measure/step_trace.h"

namespace paceline {

struct KernelUse {
  std::string phase;
  std::string operation;  // the innermost scope that launched it
  std::string kernel;     // short name; "copy", "memset"
  double calls = 0;
  double seconds = 0;
  // An operation's work is counted to the longest of its kernels.
  double flops = 0;
  double bytes = 0;
  bool communicates = false;  // a kernel of a collective

  // weight_update: the product of a weight's gradient, with the update as its epilogue.
  [[nodiscard]] bool is_product() const {
    return operation == "matmul" || operation == "weight_update";
  }
};

struct ScopeUse {
  std::string path;  // "forward/blocks/attention": the sum over blocks
  bool is_operation = false;
  double calls = 0;
  double seconds = 0;  // of all kernels, copies and memsets in the scope; collectives in their own
  double flops = 0;    // of the operations in the scope
  double bytes = 0;
};

// Collectives overlap with a phase and outlast it, and wait for other ranks. They are excluded from
// the figures of phases and included in those of the step.
struct PhaseUse {
  std::string phase;    // or "step": the whole step
  double extent = 0;    // from the start of the first kernel to the end of the last
  double busy = 0;      // the part of `extent` in which a kernel, copy or memset ran
  double products = 0;  // sum over kernels of matrix products
  double kernels = 0;   // sum over all kernels, copies and memsets
};

struct StepProfile {
  std::vector<KernelUse> kernels;  // the most expensive first
  std::vector<ScopeUse> scopes;    // in the order in which they were first entered
  std::vector<PhaseUse> phases;    // in the same order; "step" is the last
};

[[nodiscard]] StepProfile profile_of(const StepTrace& trace);

// The kernels in `phases`, without collectives, summed over phases and operations by kernel name;
// the most expensive first. Operation and phase are those of a kernel's first entry.
[[nodiscard]] std::vector<KernelUse> by_kernel(const StepProfile& profile,
                                               const std::vector<std::string_view>& phases);

}  // namespace paceline
