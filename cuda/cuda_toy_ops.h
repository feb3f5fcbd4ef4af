#pragma once
// CudaToyOps: one kernel per operation, in the dtypes and with the arithmetic of CudaEagerOps.

#include "core/toy_ops.h"
#include "cuda/runtime/cuda_device.h"
#include "cuda/runtime/scratch.h"

namespace paceline {

class CudaToyOps final : public ToyOps {
 public:
  explicit CudaToyOps(CudaDevice& device)
      : stream_(device.compute_stream().get()),
        multiprocessors_(device.properties().multiProcessorCount),
        scratch_(device) {}

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
  void sum(const Tensor& total, const Tensor& x, Summation how) override;
  void rounded_norm(const Tensor& y, const Tensor& x, NormKind kind, double eps) override;

 private:
  cudaStream_t stream_;
  int multiprocessors_;
  Scratch scratch_;
};

}  // namespace paceline
