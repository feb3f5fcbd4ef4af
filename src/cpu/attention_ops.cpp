// Primitives of naive and fused attention other than matrix products: RoPE, causal mask, softmax.

#include <algorithm>
#include <limits>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/vector_exp.h"

namespace paceline {

namespace {

constexpr ScoreOptions plain{.scale = 1, .causal = false};

}  // namespace

void CpuOps::rope(const Tensor& qkv, const Tensor& table, bool inverse) {
  const std::int64_t context = qkv.shape[1];
  const std::int64_t rows = qkv.shape[0] * context;
  const std::int64_t head_dim = qkv.shape[4];
  const std::int64_t width = 2 * qkv.shape[3] * head_dim;  // of q and k, which are contiguous
  const std::int64_t row_stride = width / 2 * 3;
  with_compute_type({qkv, table}, [&]<class C>() {
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

void CpuOps::softmax(const Tensor& y, const Tensor& x) { masked_softmax(y, x, plain); }

void CpuOps::softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  masked_softmax_backward(dx, dy, y, plain);
}

void CpuOps::masked_softmax(const Tensor& y, const Tensor& x, const ScoreOptions& scores) {
  const std::int64_t n = x.cols();
  const auto seen = [&](std::int64_t r) { return scores.causal ? r % n + 1 : n; };
  with_compute_type({y, x}, [&]<class C>() {
    const auto row = [&](std::int64_t r, C* yr, const C* xr) {
      const std::int64_t visible = seen(r);
      const auto scale = static_cast<C>(scores.scale);
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
    };
    for_each_row<C, 1>(y, {x}, row, seen);
  });
}

void CpuOps::masked_softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y,
                                     const ScoreOptions& scores) {
  const std::int64_t n = y.cols();
  const auto seen = [&](std::int64_t r) { return scores.causal ? r % n + 1 : n; };
  with_compute_type({dx, dy, y}, [&]<class C>() {
    const auto row = [&](std::int64_t r, C* out, const C* g, const C* p) {
      const std::int64_t visible = seen(r);
      const auto scale = static_cast<C>(scores.scale);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < visible; ++j) sum += static_cast<double>(g[j]) * p[j];
      const auto total = static_cast<C>(sum);
#pragma omp simd
      for (std::int64_t j = 0; j < visible; ++j) out[j] = scale * (p[j] * (g[j] - total));
      std::fill(out + visible, out + n, C{});
    };
    for_each_row<C, 2>(dx, {dy, y}, row, seen);
  });
}

}  // namespace paceline
