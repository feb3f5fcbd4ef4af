// The handout's worked example: y[r] = sum over j of x[r, j] w[j], and its gradients.

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"

namespace paceline {

void CpuOps::weighted_sum(const Tensor& y, const Tensor& x, const Tensor& w) {
  const std::int64_t n = x.cols();
  const std::int64_t rows = x.rows();
  with_compute_type({y.dtype, x.dtype, w.dtype}, [&]<class C>() {
#pragma omp parallel if (x.numel() >= serial_below)
    {
      Reader<C> xs(x, n);
      Reader<C> ws(w, n);
      const C* weight = ws.read(0, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* xr = xs.read(r * n, n);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(xr[j]) * weight[j];
        set_element(y, r, sum);
      }
    }
  });
}

void CpuOps::weighted_sum_backward(const Tensor& dx, const Tensor& dw, const Tensor& dy,
                                   const Tensor& x, const Tensor& w) {
  const std::int64_t n = x.cols();
  const std::int64_t rows = x.rows();
  with_compute_type({dx.dtype, dw.dtype, dy.dtype, x.dtype, w.dtype}, [&]<class C>() {
    sum_rows<C>(dw, false, rows, [&] {
      return [&, xs = Reader<C>(x, column_block)](std::int64_t r, std::int64_t first,
                                                  std::int64_t count, double* sums) mutable {
        const C* xr = xs.read(r * n + first, count);
        const double g = element<C>(dy, r);
        for (std::int64_t j = 0; j < count; ++j) sums[j] += g * xr[j];
      };
    });
#pragma omp parallel if (x.numel() >= serial_below)
    {
      Reader<C> ws(w, n);
      Writer<C> dxs(dx, n);
      const C* weight = ws.read(0, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C g = element<C>(dy, r);
        C* out = dxs.at(r * n);
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) out[j] = g * weight[j];
        dxs.flush(n);
      }
    }
  });
}

}  // namespace paceline
