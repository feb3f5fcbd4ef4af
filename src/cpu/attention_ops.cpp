// What naive and fused attention are made of besides matrix products: rotary positions, mask,
// softmax.

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/vector_exp.h"

namespace paceline {

namespace {

constexpr ScoreOptions plain{.scale = 1, .causal = false};

// y = softmax(scale x) of every row over the columns that it sees, 0 at the others.
void softmax_of_rows(const Tensor& y, const Tensor& x, const ScoreOptions& scores) {
  const std::int64_t n = x.cols();
  const std::int64_t rows = x.rows();
  with_compute_type({y.dtype, x.dtype}, [&]<class C>() {
    const auto scale = static_cast<C>(scores.scale);
#pragma omp parallel if (x.numel() >= serial_below)
    {
      Reader<C> xs(x, n);
      Writer<C> ys(y, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t visible = scores.causal ? r % n + 1 : n;
        const C* xr = xs.read(r * n, visible);
        C* yr = ys.at(r * n);
        C highest = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : highest)
        for (std::int64_t j = 0; j < visible; ++j) highest = xr[j] > highest ? xr[j] : highest;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < visible; ++j) {
          yr[j] = vector_exp(scale * (xr[j] - highest));
          sum += yr[j];
        }
        const auto factor = static_cast<C>(1 / sum);
#pragma omp simd
        for (std::int64_t j = 0; j < visible; ++j) yr[j] *= factor;
        std::fill(yr + visible, yr + n, C{});
        ys.flush(n);
      }
    }
  });
}

// dx = scale y (dy - sum(dy y)), likewise.
void softmax_backward_of_rows(const Tensor& dx, const Tensor& dy, const Tensor& y,
                              const ScoreOptions& scores) {
  const std::int64_t n = y.cols();
  const std::int64_t rows = y.rows();
  with_compute_type({dx.dtype, dy.dtype, y.dtype}, [&]<class C>() {
    const auto scale = static_cast<C>(scores.scale);
#pragma omp parallel if (y.numel() >= serial_below)
    {
      Reader<C> dys(dy, n);
      Reader<C> ys(y, n);
      Writer<C> dxs(dx, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t visible = scores.causal ? r % n + 1 : n;
        const C* g = dys.read(r * n, visible);
        const C* p = ys.read(r * n, visible);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < visible; ++j) sum += static_cast<double>(g[j]) * p[j];
        const auto total = static_cast<C>(sum);
        C* out = dxs.at(r * n);
#pragma omp simd
        for (std::int64_t j = 0; j < visible; ++j) out[j] = scale * (p[j] * (g[j] - total));
        std::fill(out + visible, out + n, C{});
        dxs.flush(n);
      }
    }
  });
}

}  // namespace

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

void CpuOps::softmax(const Tensor& y, const Tensor& x) { softmax_of_rows(y, x, plain); }

void CpuOps::softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  softmax_backward_of_rows(dx, dy, y, plain);
}

void CpuOps::masked_softmax(const Tensor& y, const Tensor& x, const ScoreOptions& scores) {
  softmax_of_rows(y, x, scores);
}

void CpuOps::masked_softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y,
                                     const ScoreOptions& scores) {
  softmax_backward_of_rows(dx, dy, y, scores);
}

}  // namespace paceline
