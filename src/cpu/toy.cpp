// Operations of the course's toy models in the arithmetic of CpuOps; the oracle for other devices.
// Sums are in double, except in sum() and rounded_norm(), which show the effect of rounding.

#include <cmath>

#include "core/toy_ops.h"
#include "cpu/cpu_device.h"
#include "cpu/rows.h"

namespace paceline {

namespace {

class CpuToyOps final : public ToyOps {
 public:
  void add_bias(const Tensor& y, const Tensor& bias) override {
    const std::int64_t n = y.cols();
    with_compute_type({y, bias}, [&]<class C>() {
      for_each_row<C, 2>(y, {y, bias}, [&](std::int64_t, C* yr, const C* x, const C* b) {
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) yr[j] = x[j] + b[j];
      });
    });
  }

  void bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) override {
    with_compute_type({dbias, dy}, [&]<class C>() {
      sum_rows<C, 1>(dbias, accumulate, {dy}, [](std::int64_t) { return [](C g) { return g; }; });
    });
  }

  void relu(const Tensor& y, const Tensor& x) override {
    with_compute_type({y, x}, [&]<class C>() {
      map<C, 1>(y, {x}, [](C u) { return u < 0 ? C(0) : u; });  // NaN stays NaN
    });
  }

  void relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override {
    with_compute_type({dx, dy, y}, [&]<class C>() {
      map<C, 2>(dx, {dy, y}, [](C g, C v) { return v > 0 ? g : C(0); });
    });
  }

  void layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                  const Tensor& w, const Tensor& b, double eps) override {
    const std::int64_t n = x.cols();
    const auto count = static_cast<double>(n);
    with_compute_type({y, mean, rstd, x, w, b}, [&]<class C>() {
      const auto row = [&](std::int64_t r, C* yr, const C* xr, const C* weight, const C* bias) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < n; ++j) sum += xr[j];
        const double center = sum / count;
        double squares = 0;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t j = 0; j < n; ++j) squares += (xr[j] - center) * (xr[j] - center);
        const auto m = static_cast<C>(center);
        const auto inverse = static_cast<C>(1 / std::sqrt(squares / count + eps));
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) yr[j] = (xr[j] - m) * inverse * weight[j] + bias[j];
        set_element(mean, r, m);
        set_element(rstd, r, inverse);
      };
      for_each_row<C, 3>(y, {x, w, b}, row);
    });
  }

  void layer_norm_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dy,
                           const Tensor& x, const Tensor& w, const Tensor& mean, const Tensor& rstd,
                           bool accumulate) override {
    const std::int64_t n = x.cols();
    const auto count = static_cast<double>(n);
    bias_backward(db, dy, accumulate);
    with_compute_type({dx, dw, dy, x, w, mean, rstd}, [&]<class C>() {
      sum_rows<C, 2>(dw, accumulate, {dy, x}, [&](std::int64_t r) {
        return [center = element<C>(mean, r), inverse = element<C>(rstd, r)](C g, C xj) {
          return g * ((xj - center) * inverse);
        };
      });
      const auto row = [&](std::int64_t r, C* out, const C* xr, const C* g, const C* weight) {
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
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) {
          const C normed = (xr[j] - center) * inverse;
          out[j] = inverse * (g[j] * weight[j] - mean_g - normed * mean_product);
        }
      };
      for_each_row<C, 3>(dx, {x, dy, w}, row);
    });
  }

  void squared_error(const Tensor& loss, const Tensor& y, const Tensor& target,
                     Reduction reduction) override {
    const std::int64_t n = y.numel();
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double difference = element<double>(y, i) - element<double>(target, i);
      sum += difference * difference;
    }
    set_element(loss, 0, factor_of(reduction, n) * sum);
  }

  void squared_error_backward(const Tensor& dy, const Tensor& y, const Tensor& target,
                              Reduction reduction) override {
    const double factor = 2 * factor_of(reduction, y.numel());
    with_compute_type({dy, y, target}, [&]<class C>() {
      map<C, 2>(dy, {y, target}, [c = static_cast<C>(factor)](C u, C v) { return (u - v) * c; });
    });
  }

  void sum(const Tensor& total, const Tensor& x, Summation how) override {
    with_compute_type({total, x}, [&]<class C>() {
      Reader<C> reader(x, x.numel());
      const C* elements = reader.read(0, x.numel());
      const auto element_of = [=](std::int64_t i) { return elements[i]; };
      with_rounding<C>(total.dtype, [&](auto round) {
        set_element(total, 0, sum_of<C>(how, x.numel(), element_of, round));
      });
    });
  }

  void rounded_norm(const Tensor& y, const Tensor& x, NormKind kind, double eps) override {
    const std::int64_t n = x.cols();
    with_compute_type({y, x}, [&]<class C>() {
      with_rounding<C>(x.dtype, [&](auto round) {
        for_each_row<C, 1>(y, {x}, [&](std::int64_t, C* yr, const C* xr) {
          rounded_norm_row<C>(
              kind, n, static_cast<C>(eps), [=](std::int64_t j) { return xr[j]; },
              [=](std::int64_t j, C value) { yr[j] = value; }, round);
        });
      });
    });
  }

 private:
  // Calls f(round), where round(x) is the number of this dtype nearest to x.
  template <class C, class F>
  static void with_rounding(Dtype dtype, F f) {
    dispatch_floating(dtype, [&]<class T>() {
      if constexpr (sizeof(T) == 2) {
        f([](C value) { return static_cast<C>(static_cast<float>(T(static_cast<float>(value)))); });
      } else {
        f([](C value) { return static_cast<C>(static_cast<T>(value)); });
      }
    });
  }
};

}  // namespace

std::unique_ptr<ToyOps> CpuDevice::make_toy_ops() { return std::make_unique<CpuToyOps>(); }

}  // namespace paceline
