#pragma once
// Tensors of tests under mpirun: filled by a formula, compared with one, and with guards on both
// sides.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/non_copyable.h"
#include "cpu/rows.h"
#include "tests/ranks/rank_test.h"

namespace paceline {

// Reports at most 8 failures: one error may fail thousands of cases.
inline void fail(const std::string& text) {
  if (++shared.failures <= 8) ADD_FAILURE() << text;
}

using Formula = std::function<double(std::int64_t i)>;

// The tensor's bytes on the host, and a tensor over them.
struct HostCopy {
  explicit HostCopy(const Tensor& x)
      : bytes(x.bytes()), tensor{.data = bytes.data(), .shape = x.shape, .dtype = x.dtype} {}
  std::vector<unsigned char> bytes;
  Tensor tensor;
};

inline HostCopy copy_of(const Tensor& x) {
  HostCopy host(x);
  shared.device->to_host(host.bytes.data(), x);
  return host;
}

inline std::vector<double> values_of(const Tensor& x) {
  const HostCopy host = copy_of(x);
  std::vector<double> values(static_cast<std::size_t>(x.numel()));
  if (x.dtype == Dtype::i32) {
    std::copy_n(host.tensor.as<std::int32_t>(), x.numel(), values.begin());
  } else {
    load(values.data(), host.tensor, 0, x.numel());
  }
  return values;
}

inline void fill(const Tensor& x, const Formula& formula) {
  std::vector<double> values(static_cast<std::size_t>(x.numel()));
  std::int64_t i = 0;
  for (double& v : values) v = formula(i++);
  HostCopy host(x);
  if (x.dtype == Dtype::i32) {
    std::transform(values.begin(), values.end(), host.tensor.as<std::int32_t>(),
                   [](double v) { return static_cast<std::int32_t>(v); });
  } else {
    store(host.tensor, 0, values.data(), x.numel());
  }
  shared.device->to_device(x, host.bytes.data());
}

// allowed: the largest error.
inline void expect(const std::string& what, const Tensor& x, const Formula& want,
                   double allowed = 0) {
  std::int64_t i = -1;
  for (const double got : values_of(x)) {
    const double wanted = want(++i);
    if (got == wanted || std::abs(got - wanted) <= allowed) continue;
    if (std::isnan(got) && std::isnan(wanted)) continue;
    fail(what + ": element " + std::to_string(i) + " is " + std::to_string(got) + ", not " +
         std::to_string(wanted));
    return;
  }
}

// n poisoned elements between two guards, which must not change.
class Buffer : NonCopyable {
 public:
  Buffer(Dtype dtype, std::int64_t n)
      : all_(shared.device->allocate({n + 2 * guard}, dtype, MemoryKind::workspace)),
        inner_(all_.tensor().slice(guard, {n})) {
    const std::vector<unsigned char> bytes(all_.tensor().bytes(), poison);
    shared.device->to_device(all_, bytes.data());
  }
  ~Buffer() {
    const Tensor all = all_;
    expect_poison(all.slice(0, {guard}), "before the tensor");
    expect_poison(all.slice(all.numel() - guard, {guard}), "after the tensor");
  }

  operator const Tensor&() const { return inner_; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] Tensor part(int rank, std::int64_t k) const { return inner_.slice(rank * k, {k}); }

 private:
  static constexpr std::int64_t guard = 4;
  static constexpr unsigned char poison = 0xa5;

  static void expect_poison(const Tensor& x, const std::string& where) {
    const HostCopy host = copy_of(x);
    const auto is_poison = [](unsigned char b) { return b == poison; };
    if (!std::all_of(host.bytes.begin(), host.bytes.end(), is_poison)) fail("written " + where);
  }

  Array all_;
  Tensor inner_;
};

}  // namespace paceline
