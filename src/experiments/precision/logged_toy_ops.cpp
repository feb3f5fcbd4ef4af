#include "experiments/precision/op_log.h"

namespace paceline {

namespace {

class LoggedToyOps final : public ToyOps {
 public:
  LoggedToyOps(Device& device, OpLog& log)
      : scopes_(device.scopes()), toys_(device.make_toy_ops()), log_(log) {}

  void add_bias(const Tensor& y, const Tensor& bias) override {
    note("add_bias", {{"y", y}, {"bias", bias}});
    toys_->add_bias(y, bias);
  }
  void bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) override {
    note("bias_backward", {{"dbias", dbias}, {"dy", dy}});
    toys_->bias_backward(dbias, dy, accumulate);
  }
  void relu(const Tensor& y, const Tensor& x) override {
    note("relu", {{"y", y}, {"x", x}});
    toys_->relu(y, x);
  }
  void relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override {
    note("relu_backward", {{"dx", dx}, {"dy", dy}, {"y", y}});
    toys_->relu_backward(dx, dy, y);
  }
  void layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                  const Tensor& w, const Tensor& b, double eps) override {
    note("layer_norm", {{"y", y}, {"mean", mean}, {"rstd", rstd}, {"x", x}, {"w", w}, {"b", b}});
    toys_->layer_norm(y, mean, rstd, x, w, b, eps);
  }
  void layer_norm_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dy,
                           const Tensor& x, const Tensor& w, const Tensor& mean, const Tensor& rstd,
                           bool accumulate) override {
    note("layer_norm_backward", {{"dx", dx},
                                 {"dw", dw},
                                 {"db", db},
                                 {"dy", dy},
                                 {"x", x},
                                 {"w", w},
                                 {"mean", mean},
                                 {"rstd", rstd}});
    toys_->layer_norm_backward(dx, dw, db, dy, x, w, mean, rstd, accumulate);
  }
  void squared_error(const Tensor& loss, const Tensor& y, const Tensor& target,
                     Reduction reduction) override {
    note("squared_error", {{"loss", loss}, {"y", y}, {"target", target}});
    toys_->squared_error(loss, y, target, reduction);
  }
  void squared_error_backward(const Tensor& dy, const Tensor& y, const Tensor& target,
                              Reduction reduction) override {
    note("squared_error_backward", {{"dy", dy}, {"y", y}, {"target", target}});
    toys_->squared_error_backward(dy, y, target, reduction);
  }
  void sum(const Tensor& total, const Tensor& x, Summation how) override {
    note("sum", {{"total", total}, {"x", x}});
    toys_->sum(total, x, how);
  }
  void rounded_norm(const Tensor& y, const Tensor& x, NormKind kind, double eps) override {
    note("rounded_norm", {{"y", y}, {"x", x}});
    toys_->rounded_norm(y, x, kind, eps);
  }

 private:
  void note(const char* op, std::initializer_list<OpLog::Named> operands) {
    log_.add(scopes_, op, operands);
  }

  const ScopeStack& scopes_;
  std::unique_ptr<ToyOps> toys_;
  OpLog& log_;
};

}  // namespace

std::unique_ptr<ToyOps> make_logged_toy_ops(Device& device, OpLog& log) {
  return std::make_unique<LoggedToyOps>(device, log);
}

}  // namespace paceline
