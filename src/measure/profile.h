#pragma once
// Where a rank's steps spend their time: by kernel, by scope and by phase, the outermost scope.
// Seconds, calls, FLOPs and bytes are of one step: means over all steps.

#include <string>
#include <string_view>
#include <vector>

#include "measure/step_trace.h"

namespace paceline {

struct KernelUse {
  std::string phase;
  std::string operation;  // the innermost scope that launched it
  std::string kernel;     // by its short name; "copy", "memset"
  double calls = 0;
  double seconds = 0;
  // Of the operations that launched it, where it took longest of their kernels.
  double flops = 0;
  double bytes = 0;
  bool communicates = false;  // a collective's

  [[nodiscard]] bool is_product() const { return operation == "matmul"; }
};

struct ScopeUse {
  std::string path;  // "forward/blocks/attention": all blocks together
  bool is_operation = false;
  double calls = 0;
  double seconds = 0;  // of all kernels, copies and memsets within it
  double flops = 0;    // of the operations within it
  double bytes = 0;
};

// A phase's collectives run beside it and after it, and wait for other ranks: its figures leave
// them out, the step's do not.
struct PhaseUse {
  std::string phase;    // or "step": everything
  double extent = 0;    // from the begin of the first kernel to the end of the last
  double busy = 0;      // of it, while a kernel, copy or memset ran
  double products = 0;  // of matrix products
  double kernels = 0;   // of all kernels, copies and memsets
};

struct StepProfile {
  std::vector<KernelUse> kernels;  // from the costliest on
  std::vector<ScopeUse> scopes;    // in the order in which they were first entered
  std::vector<PhaseUse> phases;    // likewise; "step" is the last
};

[[nodiscard]] StepProfile profile_of(const StepTrace& trace);

// Of the same kernel in all of `phases`, whatever launched it, but for collectives: from the
// costliest on. Operation and phase are those of the first.
[[nodiscard]] std::vector<KernelUse> by_kernel(const StepProfile& profile,
                                               const std::vector<std::string_view>& phases);

}  // namespace paceline
