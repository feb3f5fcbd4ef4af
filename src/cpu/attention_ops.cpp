// What naive attention is made of besides matrix products: rotary positions, mask, softmax.

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/vector_exp.h"

namespace paceline {

void CpuOps::rope(const Tensor& qkv, const Tensor& table, bool inverse) {
  const std::int64_t context = qkv.shape[1];
  const std::int64_t rows = qkv.shape[0] * context;
  const std::int64_t head_dim = qkv.shape[4];
  const std::int64_t width = 2 * qkv.shape[3] * head_dim;  // of q and k, which are neighbours
  const std::int64_t row_stride = width / 2 * 3;
  with_compute_type({qkv.dtype, table.dtype}, [&]<class C>() {
    const C direction = inverse ? -1 : 1;
#pragma omp parallel if (qkv.numel() >= serial_below)
    {
      Reader<C> angles(table, head_dim);
      Reader<C> in(qkv, width);
      Writer<C> out(qkv, width);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* angle = angles.read(r % context * head_dim, head_dim);
        const C* x = in.read(r * row_stride, width);
        C* y = out.at(r * row_stride);
        for (std::int64_t h = 0; h < width; h += head_dim) {
#pragma omp simd
          for (std::int64_t j = 0; j < head_dim; j += 2) {
            const C c = angle[j];
            const C s = angle[j + 1] * direction;
            const C x0 = x[h + j];
            const C x1 = x[h + j + 1];
            y[h + j] = c * x0 - s * x1;
            y[h + j + 1] = s * x0 + c * x1;
          }
        }
        out.flush(width);
      }
    }
  });
}

void CpuOps::causal_mask(const Tensor& scores) {
  const std::int64_t context = scores.cols();
  const std::int64_t rows = scores.rows();
  dispatch_floating(scores.dtype, [&]<class T>() {
    const T masked(-std::numeric_limits<float>::infinity());
    T* x = scores.as<T>();
#pragma omp parallel for schedule(static) if (scores.numel() >= serial_below)
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t visible = r % context + 1;
      std::fill(x + r * context + visible, x + (r + 1) * context, masked);
    }
  });
}

void CpuOps::softmax(const Tensor& y, const Tensor& x) {
  const std::int64_t n = x.cols();
  const std::int64_t rows = x.rows();
  with_compute_type({y.dtype, x.dtype}, [&]<class C>() {
#pragma omp parallel if (x.numel() >= serial_below)
    {
      Reader<C> xs(x, n);
      Writer<C> ys(y, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* xr = xs.read(r * n, n);
        C* yr = ys.at(r * n);
        C highest = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : highest)
        for (std::int64_t j = 0; j < n; ++j) highest = xr[j] > highest ? xr[j] : highest;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < n; ++j) {
          yr[j] = vector_exp(xr[j] - highest);
          sum += yr[j];
        }
        const auto factor = static_cast<C>(1 / sum);
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) yr[j] *= factor;
        ys.flush(n);
      }
    }
  });
}

void CpuOps::softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  const std::int64_t n = y.cols();
  const std::int64_t rows = y.rows();
  with_compute_type({dx.dtype, dy.dtype, y.dtype}, [&]<class C>() {
#pragma omp parallel if (y.numel() >= serial_below)
    {
      Reader<C> dys(dy, n);
      Reader<C> ys(y, n);
      Writer<C> dxs(dx, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* g = dys.read(r * n, n);
        const C* p = ys.read(r * n, n);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(g[j]) * p[j];
        const auto total = static_cast<C>(sum);
        C* out = dxs.at(r * n);
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) out[j] = p[j] * (g[j] - total);
        dxs.flush(n);
      }
    }
  });
}

}  // namespace paceline
