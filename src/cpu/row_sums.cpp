// Sums over a row, in double: RMSNorm, and the course handout's worked example, a weighted sum.

#include <cmath>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"

namespace paceline {

void CpuOps::rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                      double eps) {
  const std::int64_t n = x.cols();
  with_compute_type({y, rstd, x, w}, [&]<class C>() {
    for_each_row<C, 2>(y, {x, w}, [&](std::int64_t r, C* yr, const C* xr, const C* weight) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(xr[j]) * xr[j];
      const auto inverse = static_cast<C>(1 / std::sqrt(sum / static_cast<double>(n) + eps));
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) yr[j] = xr[j] * inverse * weight[j];
      set_element(rstd, r, inverse);
    });
  });
}

void CpuOps::rms_norm_backward(const Tensor& dx, const Tensor& dx_in, const Tensor& dw,
                               const Tensor& dy, const Tensor& x, const Tensor& w,
                               const Tensor& rstd, bool accumulate_dw) {
  const std::int64_t n = x.cols();
  const bool adds = !dx_in.empty();
  with_compute_type({dx, dx_in, dw, dy, x, w, rstd}, [&]<class C>() {
    // dw before dx, since dx may alias dy.
    sum_rows<C, 2>(dw, accumulate_dw, {dy, x}, [&](std::int64_t r) {
      return [inverse = element<C>(rstd, r)](C g, C xj) { return g * (xj * inverse); };
    });
    const auto row = [&](std::int64_t r, C* out, const C* xr, const C* g, const C* weight,
                         const C* in) {
      const C inverse = element<C>(rstd, r);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < n; ++j) {
        sum += static_cast<double>(g[j] * weight[j]) * (xr[j] * inverse);
      }
      const auto mean = static_cast<C>(sum / static_cast<double>(n));
      if (!adds) {
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) {
          out[j] = inverse * (g[j] * weight[j] - xr[j] * inverse * mean);
        }
        return;
      }
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) {
        out[j] = in[j] + inverse * (g[j] * weight[j] - xr[j] * inverse * mean);
      }
    };
    // Without dx_in, x is passed in its position and not used.
    for_each_row<C, 4>(dx, {x, dy, w, adds ? dx_in : x}, row);
  });
}

// y[r] = sum over j of x[r, j] w[j], and its gradients.
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
