// Operations of the course's toy models and its worked example.

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

void CpuOps::add_bias(const Tensor& y, const Tensor& bias) {
  const std::int64_t n = y.cols();
  const std::int64_t rows = y.rows();
  with_compute_type({y.dtype, bias.dtype}, [&]<class C>() {
#pragma omp parallel if (y.numel() >= serial_below)
    {
      Reader<C> bs(bias, n);
      Reader<C> in(y, n);
      Writer<C> out(y, n);
      const C* b = bs.read(0, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* x = in.read(r * n, n);
        C* yr = out.at(r * n);
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) yr[j] = x[j] + b[j];
        out.flush(n);
      }
    }
  });
}

void CpuOps::bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) {
  const std::int64_t n = dy.cols();
  with_compute_type({dbias.dtype, dy.dtype}, [&]<class C>() {
    sum_rows<C>(dbias, accumulate, dy.rows(), [&] {
      return [&, dys = Reader<C>(dy, column_block)](std::int64_t r, std::int64_t first,
                                                    std::int64_t count, double* sums) mutable {
        const C* g = dys.read(r * n + first, count);
        for (std::int64_t j = 0; j < count; ++j) sums[j] += g[j];
      };
    });
  });
}

void CpuOps::relu(const Tensor& y, const Tensor& x) {
  with_compute_type({y.dtype, x.dtype}, [&]<class C>() {
    map<C, 1>(y, {x}, [](C u) { return u < 0 ? C(0) : u; });  // NaN stays NaN
  });
}

void CpuOps::relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  with_compute_type({dx.dtype, dy.dtype, y.dtype}, [&]<class C>() {
    map<C, 2>(dx, {dy, y}, [](C g, C v) { return v > 0 ? g : C(0); });
  });
}

}  // namespace paceline
