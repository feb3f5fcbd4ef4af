#pragma once
// CpuToyOps: the oracle for every other device's, with the arithmetic of CpuOps.

#include "core/toy_ops.h"

namespace paceline {

class CpuToyOps final : public ToyOps {
 public:
  void add_bias(const Tensor& y, const Tensor& bias) override;
  void bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) override;
  void relu(const Tensor& y, const Tensor& x) override;
  void relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override;
  void layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                  const Tensor& w, const Tensor& b, double eps) override;
  void layer_norm_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dy,
                           const Tensor& x, const Tensor& w, const Tensor& mean, const Tensor& rstd,
                           bool accumulate) override;
  void squared_error(const Tensor& loss, const Tensor& y, const Tensor& target,
                     Reduction reduction) override;
  void squared_error_backward(const Tensor& dy, const Tensor& y, const Tensor& target,
                              Reduction reduction) override;
};

}  // namespace paceline
