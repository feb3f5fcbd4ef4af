#pragma once
// Logs of the operations that a model runs and of the dtypes of their operands: wrappers of Ops and
// ToyOps that log each call and forward it to the device's operations.

#include <memory>
#include <string>
#include <vector>

#include "core/ops.h"
#include "core/toy_ops.h"

namespace paceline {

// One operand of one call.
struct LoggedOperand {
  std::string scope;    // "forward/block 0/attention"
  std::string op;       // name in core/ops.h: "rms_norm"
  std::string operand;  // parameter name in core/ops.h: "rstd"
  Dtype dtype = Dtype::f32;

  [[nodiscard]] bool operator==(const LoggedOperand&) const = default;
};

class OpLog {
 public:
  struct Named {
    const char* name;
    const Tensor& tensor;
  };

  // Empty tensors are left out.
  void add(const ScopeStack& scopes, const char* op, std::initializer_list<Named> operands);
  [[nodiscard]] const std::vector<LoggedOperand>& operands() const { return operands_; }

 private:
  std::vector<LoggedOperand> operands_;  // in the order of the calls
};

// The device's operations in eager execution; every call of a primitive is logged.
[[nodiscard]] std::unique_ptr<Ops> make_logged_ops(Device& device, const OpsConfig& config,
                                                   OpLog& log);
[[nodiscard]] std::unique_ptr<ToyOps> make_logged_toy_ops(Device& device, OpLog& log);

}  // namespace paceline
