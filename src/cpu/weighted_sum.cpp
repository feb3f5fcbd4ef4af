// The course handout's worked example: y[r] = sum over j of x[r, j] w[j], and its gradients.

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"

namespace paceline {

void CpuOps::weighted_sum(const Tensor& y, const Tensor& x, const Tensor& w) {
  const std::int64_t n = x.cols();
  with_compute_type({y, x, w}, [&]<class C>() {
    const auto row = [&](std::int64_t, C* yr, const C* xr, const C* weight) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(xr[j]) * weight[j];
      *yr = static_cast<C>(sum);
    };
    for_each_row<C, 2>(one_per_row(y), {x, w}, row);
  });
}

void CpuOps::weighted_sum_backward(const Tensor& dx, const Tensor& dw, const Tensor& dy,
                                   const Tensor& x, const Tensor& w) {
  const std::int64_t n = x.cols();
  with_compute_type({dx, dw, dy, x, w}, [&]<class C>() {
    sum_rows<C, 1>(dw, false, {x}, [&](std::int64_t r) {
      return [g = static_cast<double>(element<C>(dy, r))](C xj) { return g * xj; };
    });
    const auto row = [&](std::int64_t, C* out, const C* g, const C* weight) {
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) out[j] = *g * weight[j];
    };
    for_each_row<C, 2>(dx, {one_per_row(dy), w}, row);
  });
}

}  // namespace paceline
