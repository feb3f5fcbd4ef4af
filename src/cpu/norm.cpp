// RMSNorm. Means over a row are taken in double.

#include <cmath>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"

namespace paceline {

void CpuOps::rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                      double eps) {
  const std::int64_t n = x.cols();
  const std::int64_t rows = x.rows();
  with_compute_type({y.dtype, rstd.dtype, x.dtype, w.dtype}, [&]<class C>() {
#pragma omp parallel if (x.numel() >= serial_below)
    {
      Reader<C> xs(x, n);
      Reader<C> ws(w, n);
      Writer<C> ys(y, n);
      const C* weight = ws.read(0, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* xr = xs.read(r * n, n);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(xr[j]) * xr[j];
        const auto inverse = static_cast<C>(1 / std::sqrt(sum / static_cast<double>(n) + eps));
        C* yr = ys.at(r * n);
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) yr[j] = xr[j] * inverse * weight[j];
        ys.flush(n);
        set_element(rstd, r, inverse);
      }
    }
  });
}

void CpuOps::rms_norm_backward(const Tensor& dx, const Tensor& dx_in, const Tensor& dw,
                               const Tensor& dy, const Tensor& x, const Tensor& w,
                               const Tensor& rstd, bool accumulate_dw) {
  const std::int64_t n = x.cols();
  const std::int64_t rows = x.rows();
  with_compute_type(
      {dx.dtype, dx_in.dtype, dw.dtype, dy.dtype, x.dtype, w.dtype, rstd.dtype}, [&]<class C>() {
        // Before dx, which may be written over dy.
        sum_rows<C>(dw, accumulate_dw, rows, [&] {
          return [&, dys = Reader<C>(dy, column_block), xs = Reader<C>(x, column_block)](
                     std::int64_t r, std::int64_t first, std::int64_t count, double* sums) mutable {
            const C* g = dys.read(r * n + first, count);
            const C* xr = xs.read(r * n + first, count);
            const C inverse = element<C>(rstd, r);
            for (std::int64_t j = 0; j < count; ++j) sums[j] += g[j] * (xr[j] * inverse);
          };
        });
#pragma omp parallel if (x.numel() >= serial_below)
        {
          Reader<C> xs(x, n);
          Reader<C> dys(dy, n);
          Reader<C> ins(dx_in, dx_in.empty() ? 0 : n);
          Reader<C> ws(w, n);
          Writer<C> dxs(dx, n);
          const C* weight = ws.read(0, n);
#pragma omp for schedule(static)
          for (std::int64_t r = 0; r < rows; ++r) {
            const C* xr = xs.read(r * n, n);
            const C* g = dys.read(r * n, n);
            const C inverse = element<C>(rstd, r);
            double sum = 0;
#pragma omp simd reduction(+ : sum)
            for (std::int64_t j = 0; j < n; ++j) {
              sum += static_cast<double>(g[j] * weight[j]) * (xr[j] * inverse);
            }
            const auto mean = static_cast<C>(sum / static_cast<double>(n));
            C* out = dxs.at(r * n);
            if (dx_in.empty()) {
#pragma omp simd
              for (std::int64_t j = 0; j < n; ++j) {
                out[j] = inverse * (g[j] * weight[j] - xr[j] * inverse * mean);
              }
            } else {
              const C* in = ins.read(r * n, n);
#pragma omp simd
              for (std::int64_t j = 0; j < n; ++j) {
                out[j] = in[j] + inverse * (g[j] * weight[j] - xr[j] * inverse * mean);
              }
            }
            dxs.flush(n);
          }
        }
      });
}

}  // namespace paceline
