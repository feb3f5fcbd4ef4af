// Operations of the course's toy models. Sums are taken in double.

#include "cpu/toy.h"

#include <cmath>

#include "cpu/rows.h"

namespace paceline {

void CpuToyOps::add_bias(const Tensor& y, const Tensor& bias) {
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

void CpuToyOps::bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) {
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

void CpuToyOps::relu(const Tensor& y, const Tensor& x) {
  with_compute_type({y.dtype, x.dtype}, [&]<class C>() {
    map<C, 1>(y, {x}, [](C u) { return u < 0 ? C(0) : u; });  // NaN stays NaN
  });
}

void CpuToyOps::relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  with_compute_type({dx.dtype, dy.dtype, y.dtype}, [&]<class C>() {
    map<C, 2>(dx, {dy, y}, [](C g, C v) { return v > 0 ? g : C(0); });
  });
}

void CpuToyOps::layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                           const Tensor& w, const Tensor& b, double eps) {
  const std::int64_t n = x.cols();
  const std::int64_t rows = x.rows();
  const auto count = static_cast<double>(n);
  with_compute_type({y.dtype, mean.dtype, rstd.dtype, x.dtype, w.dtype, b.dtype}, [&]<class C>() {
#pragma omp parallel if (x.numel() >= serial_below)
    {
      Reader<C> xs(x, n);
      Reader<C> ws(w, n);
      Reader<C> bs(b, n);
      Writer<C> ys(y, n);
      const C* weight = ws.read(0, n);
      const C* bias = bs.read(0, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* xr = xs.read(r * n, n);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < n; ++j) sum += xr[j];
        const double center = sum / count;
        double squares = 0;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t j = 0; j < n; ++j) squares += (xr[j] - center) * (xr[j] - center);
        const auto m = static_cast<C>(center);
        const auto inverse = static_cast<C>(1 / std::sqrt(squares / count + eps));
        C* yr = ys.at(r * n);
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) yr[j] = (xr[j] - m) * inverse * weight[j] + bias[j];
        ys.flush(n);
        set_element(mean, r, m);
        set_element(rstd, r, inverse);
      }
    }
  });
}

// With xh = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - xh mean(g xh)), dw (+)= sum over
// rows of dy xh, db (+)= sum over rows of dy.
void CpuToyOps::layer_norm_backward(const Tensor& dx, const Tensor& dw, const Tensor& db,
                                    const Tensor& dy, const Tensor& x, const Tensor& w,
                                    const Tensor& mean, const Tensor& rstd, bool accumulate) {
  const std::int64_t n = x.cols();
  const std::int64_t rows = x.rows();
  const auto count = static_cast<double>(n);
  bias_backward(db, dy, accumulate);
  with_compute_type(
      {dx.dtype, dw.dtype, dy.dtype, x.dtype, w.dtype, mean.dtype, rstd.dtype}, [&]<class C>() {
        sum_rows<C>(dw, accumulate, rows, [&] {
          return [&, dys = Reader<C>(dy, column_block), xs = Reader<C>(x, column_block)](
                     std::int64_t r, std::int64_t first, std::int64_t m, double* sums) mutable {
            const C* g = dys.read(r * n + first, m);
            const C* xr = xs.read(r * n + first, m);
            const C center = element<C>(mean, r);
            const C inverse = element<C>(rstd, r);
            for (std::int64_t j = 0; j < m; ++j) sums[j] += g[j] * ((xr[j] - center) * inverse);
          };
        });
#pragma omp parallel if (x.numel() >= serial_below)
        {
          Reader<C> xs(x, n);
          Reader<C> dys(dy, n);
          Reader<C> ws(w, n);
          Writer<C> dxs(dx, n);
          const C* weight = ws.read(0, n);
#pragma omp for schedule(static)
          for (std::int64_t r = 0; r < rows; ++r) {
            const C* xr = xs.read(r * n, n);
            const C* g = dys.read(r * n, n);
            const C center = element<C>(mean, r);
            const C inverse = element<C>(rstd, r);
            double sum = 0;
            double product = 0;
#pragma omp simd reduction(+ : sum, product)
            for (std::int64_t j = 0; j < n; ++j) {
              const double gj = g[j] * weight[j];
              sum += gj;
              product += gj * ((xr[j] - center) * inverse);
            }
            const auto mean_g = static_cast<C>(sum / count);
            const auto mean_product = static_cast<C>(product / count);
            C* out = dxs.at(r * n);
#pragma omp simd
            for (std::int64_t j = 0; j < n; ++j) {
              const C normed = (xr[j] - center) * inverse;
              out[j] = inverse * (g[j] * weight[j] - mean_g - normed * mean_product);
            }
            dxs.flush(n);
          }
        }
      });
}

void CpuToyOps::squared_error(const Tensor& loss, const Tensor& y, const Tensor& target,
                              Reduction reduction) {
  const std::int64_t n = y.numel();
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double difference = element<double>(y, i) - element<double>(target, i);
    sum += difference * difference;
  }
  set_element(loss, 0, factor_of(reduction, n) * sum);
}

void CpuToyOps::squared_error_backward(const Tensor& dy, const Tensor& y, const Tensor& target,
                                       Reduction reduction) {
  const double factor = 2 * factor_of(reduction, y.numel());
  with_compute_type({dy.dtype, y.dtype, target.dtype}, [&]<class C>() {
    map<C, 2>(dy, {y, target}, [c = static_cast<C>(factor)](C u, C v) { return (u - v) * c; });
  });
}

}  // namespace paceline
