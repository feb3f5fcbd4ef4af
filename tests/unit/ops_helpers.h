#pragma once
// Helpers for tests of Ops: tensors with known values on a CPU device, outputs filled with NaN
// before the call, comparison within a dtype's precision, and finite differences. Operations are
// tested in float64 by their definition; unit/oracle_test.cpp compares those of other dtypes with
// them.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/ops.h"
#include "core/random.h"
#include "cpu/cpu_device.h"
#include "tests/unit/constants.h"

namespace paceline {

inline constexpr std::array<Dtype, 4> floating_dtypes = {Dtype::f64, Dtype::f32, Dtype::bf16,
                                                         Dtype::f16};
// Numbers of rows: one, few, one below and one above a power of two. Numbers of columns: the last
// is large enough for the threaded paths.
inline constexpr std::array<std::int64_t, 4> odd_rows = {1, 3, 127, 129};
inline constexpr std::array<std::int64_t, 3> odd_cols = {1, 5, 131};

// The largest relative error of one rounding, times a factor for a few operations.
inline double tolerance(Dtype d) {
  switch (d) {
    case Dtype::f64: return 1e-12;
    case Dtype::f32: return 4e-6;
    case Dtype::bf16: return 0x1p-7;
    case Dtype::f16: return 0x1p-10;
    case Dtype::i32: return 0;
  }
  throw_unnamed(static_cast<std::size_t>(d));
}

class OpsTest : public ::testing::Test {
 protected:
  static constexpr int threads = 2;

  [[nodiscard]] std::unique_ptr<Ops> make_ops(std::string_view precision) {
    return device.make_ops({.precision = precision_named(precision)});
  }

  [[nodiscard]] Array tensor(const Shape& shape, Dtype dtype, const std::vector<double>& values) {
    Array x = device.allocate(shape, dtype, MemoryKind::activation);
    EXPECT_EQ(shape.numel(), static_cast<std::int64_t>(values.size()));
    set(x, values);
    return x;
  }
  [[nodiscard]] Array integers(const Shape& shape, const std::vector<std::int32_t>& values) {
    Array x = device.allocate(shape, Dtype::i32, MemoryKind::activation);
    EXPECT_EQ(shape.numel(), static_cast<std::int64_t>(values.size()));
    device.to_device(x, values.data());
    return x;
  }
  // Integers in [0, below).
  [[nodiscard]] Array random_integers(const Shape& shape, std::int32_t below) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(shape.numel()));
    Random(7, streams++).fill_integers(values, below);
    return integers(shape, values);
  }
  // Normal numbers, different at every call, rounded to the dtype.
  [[nodiscard]] Array random(const Shape& shape, Dtype dtype, double std = 1) {
    std::vector<float> drawn(static_cast<std::size_t>(shape.numel()));
    Random(7, streams++).fill_normal(drawn, std);
    return tensor(shape, dtype, {drawn.begin(), drawn.end()});
  }
  // An output filled with NaN, which an operation must write without reading.
  [[nodiscard]] Array poisoned(const Shape& shape, Dtype dtype) {
    return tensor(shape, dtype,
                  std::vector<double>(static_cast<std::size_t>(shape.numel()),
                                      std::numeric_limits<double>::quiet_NaN()));
  }
  [[nodiscard]] Array f64(const Shape& shape, double std = 1) {
    return random(shape, Dtype::f64, std);
  }
  [[nodiscard]] Array nans(const Shape& shape) { return poisoned(shape, Dtype::f64); }
  [[nodiscard]] Array copy_of(const Tensor& x, Dtype dtype = Dtype::f64) {
    return tensor(x.shape, dtype, values(x));
  }

  // These use no operation under test.
  static void set(const Tensor& x, const std::vector<double>& values) {
    dispatch_floating(x.dtype, [&]<class T>() {
      T* element = x.as<T>();
      for (const double value : values) {
        if constexpr (sizeof(T) == 2) {
          *element++ = T(static_cast<float>(value));
        } else {
          *element++ = static_cast<T>(value);
        }
      }
    });
  }
  [[nodiscard]] static std::vector<double> values(const Tensor& x) {
    std::vector<double> result(static_cast<std::size_t>(x.numel()));
    dispatch_floating(x.dtype, [&]<class T>() {
      const T* element = x.as<T>();
      for (double& value : result) {
        if constexpr (sizeof(T) == 2) {
          value = static_cast<float>(*element++);
        } else {
          value = *element++;
        }
      }
    });
    return result;
  }

  // |actual - expected| <= factor tolerance(dtype) (|expected| + scale), and the same infinities.
  static void expect_close(const Tensor& actual, const std::vector<double>& expected,
                           double factor = 1, double scale = 1) {
    const std::vector<double> got = values(actual);
    ASSERT_EQ(got.size(), expected.size());
    const double relative = factor * tolerance(actual.dtype);
    int wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool same_infinity = std::isinf(expected[i]) && got[i] == expected[i];
      if (same_infinity ||
          std::abs(got[i] - expected[i]) <= relative * (std::abs(expected[i]) + scale)) {
        continue;
      }
      if (++wrong <= 3) {
        ADD_FAILURE() << "element " << i << " of " << actual.shape.str() << " "
                      << name_of(actual.dtype) << ": " << got[i] << ", expected " << expected[i];
      }
    }
    EXPECT_EQ(wrong, 0) << "wrong elements";
  }

  // Of float64 tensors.
  [[nodiscard]] static double dot(const Tensor& a, const Tensor& b) {
    const auto* begin = a.as<double>();
    return std::inner_product(begin, begin + a.numel(), b.as<double>(), 0.0);
  }

  // Calls f(rows, cols) for each of odd_rows and odd_cols.
  template <class F>
  static void for_odd_shapes(F f) {
    for (const std::int64_t rows : odd_rows) {
      for (const std::int64_t cols : odd_cols) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols);
        f(rows, cols);
      }
    }
  }

  // Compares `gradient` with central differences of loss() with respect to x (both float64), at
  // every element or, for large tensors, at about 40 elements spread over it.
  static void expect_gradient(const Tensor& x, const Tensor& gradient,
                              const std::function<double()>& loss, double relative = 1e-6) {
    constexpr std::int64_t most = 40;
    constexpr double h = 1e-5;
    auto* element = x.as<double>();
    const std::vector<double> expected = values(gradient);
    double largest = 0;
    for (const double g : expected) largest = std::max(largest, std::abs(g));
    const std::int64_t n = x.numel();
    const std::int64_t stride = n <= most ? 1 : (n / most) | 1;
    for (std::int64_t i = 0; i < n; i += stride) {
      const double before = element[i];
      element[i] = before + h;
      const double above = loss();
      element[i] = before - h;
      const double below = loss();
      element[i] = before;
      const double difference = (above - below) / (2 * h);
      ASSERT_NEAR(expected[static_cast<std::size_t>(i)], difference,
                  relative * (1 + std::abs(difference) + largest))
          << "gradient at element " << i << " of " << x.shape.str();
    }
  }

  CpuDevice device{plenty, threads};
  std::unique_ptr<Ops> ops = make_ops("fp64");
  std::uint64_t streams = 0;
};

}  // namespace paceline
