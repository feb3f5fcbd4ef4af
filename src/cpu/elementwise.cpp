// Elementwise operations: cast, fill, add, scale, SwiGLU.

#include <algorithm>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/vector_exp.h"

namespace paceline {

void CpuOps::cast(const Tensor& to, const Tensor& from) {
  with_compute_type({to, from}, [&]<class C>() { map<C, 1>(to, {from}, [](C x) { return x; }); });
}

void CpuOps::fill(const Tensor& x, double value) {
  if (x.dtype == Dtype::i32) {
    std::fill_n(x.as<std::int32_t>(), x.numel(), static_cast<std::int32_t>(value));
    return;
  }
  with_compute_type(
      {x}, [&]<class C>() { map<C, 0>(x, {}, [c = static_cast<C>(value)] { return c; }); });
}

void CpuOps::fill_normal(const Tensor& x, const Random& random, const TruncatedNormal& normal,
                         std::int64_t first) {
  const auto begin = static_cast<std::uint64_t>(first);
  dispatch_floating(x.dtype, [&]<class T>() {
    random.for_each(
        begin, begin + static_cast<std::uint64_t>(x.numel()),
        [&](std::uint64_t i, double u) { x.as<T>()[i - begin] = static_cast<T>(normal(u)); });
  });
}

void CpuOps::add(const Tensor& y, const Tensor& a, const Tensor& b) {
  with_compute_type({y, a, b}, [&]<class C>() {
    map<C, 2>(y, {a, b}, [](C u, C v) { return u + v; });
  });
}

void CpuOps::scale(const Tensor& x, double factor) {
  with_compute_type({x}, [&]<class C>() {
    map<C, 1>(x, {x}, [c = static_cast<C>(factor)](C u) { return u * c; });
  });
}

void CpuOps::swiglu(const Tensor& z, const Tensor& gate_up) {
  const std::int64_t width = z.cols();
  with_compute_type({z, gate_up}, [&]<class C>() {
    for_each_row<C, 1>(z, {gate_up}, [&](std::int64_t, C* zr, const C* a) {
      const C* b = a + width;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) zr[j] = a[j] / (1 + vector_exp(-a[j])) * b[j];
    });
  });
}

void CpuOps::swiglu_backward(const Tensor& d_gate_up, const Tensor& dz, const Tensor& gate_up) {
  const std::int64_t width = dz.cols();
  with_compute_type({d_gate_up, dz, gate_up}, [&]<class C>() {
    const auto row = [&](std::int64_t, C* da, const C* a, const C* g) {
      const C* b = a + width;
      C* db = da + width;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) {
        const C gate = a[j];
        const C up = b[j];
        const C s = 1 / (1 + vector_exp(-gate));
        da[j] = g[j] * up * s * (1 + gate * (1 - s));
        db[j] = g[j] * gate * s;
      }
    };
    for_each_row<C, 2>(d_gate_up, {gate_up, dz}, row);
  });
}

}  // namespace paceline
