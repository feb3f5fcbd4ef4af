#pragma once
// What operations a model really runs, and the dtypes of the tensors that each of them gets: logs
// that stand between a model and the device's operations.

#include <memory>
#include <string>
#include <vector>

#include "core/ops.h"
#include "core/toy_ops.h"

namespace paceline {

// A tensor that an operation got.
struct LoggedOperand {
  std::string scope;    // "forward/block 0/attention"
  std::string op;       // as core/ops.h names it
  std::string operand;  // likewise
  Dtype dtype = Dtype::f32;

  [[nodiscard]] bool operator==(const LoggedOperand&) const = default;
};

class OpLog {
 public:
  struct Named {
    const char* name;
    const Tensor& tensor;
  };

  // Operands that are empty are left out.
  void add(const ScopeStack& scopes, const char* op, std::initializer_list<Named> operands);
  [[nodiscard]] const std::vector<LoggedOperand>& operands() const { return operands_; }

 private:
  std::vector<LoggedOperand> operands_;  // in the order of the calls
};

// The device's eager operations; each call of a primitive is added to the log.
[[nodiscard]] std::unique_ptr<Ops> make_logged_ops(Device& device, const OpsConfig& config,
                                                   OpLog& log);
[[nodiscard]] std::unique_ptr<ToyOps> make_logged_toy_ops(Device& device, OpLog& log);

}  // namespace paceline
