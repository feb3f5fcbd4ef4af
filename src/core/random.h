#pragma once
// Counter-based random numbers (Philox4x32-10, Salmon et al., SC'11): element i of a stream is a
// function of (seed, stream, i) alone, so that any number of threads, ranks and devices draws the
// same values.

#include <array>
#include <cstdint>
#include <span>

namespace paceline {

// The four 32-bit words that Philox4x32-10 makes of a counter and a key.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key);

class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  // Elements 4 quad ... 4 quad + 3, uniform in (0, 1): 32 bits each, never 0 or 1.
  [[nodiscard]] std::array<double, 4> uniform4(std::uint64_t quad) const;

  // Each fills `out` with elements offset, offset + 1, ... in parallel.
  void fill_normal(std::span<float> out, double std = 1, std::uint64_t offset = 0) const;
  // torch.nn.init.trunc_normal_: normal with this std, cut at +-cut (both in the values' unit), by
  // the inverse of the distribution function.
  void fill_truncated_normal(std::span<float> out, double std, double cut,
                             std::uint64_t offset = 0) const;
  // Integers in [0, below).
  void fill_integers(std::span<std::int32_t> out, std::int32_t below,
                     std::uint64_t offset = 0) const;

 private:
  template <class T, class F>
  void fill(std::span<T> out, std::uint64_t offset, F of_uniform) const;

  std::uint64_t seed_;
  std::uint64_t stream_;
};

// The inverse of the error function on (-1, 1): the relative error stays below 1e-6 up to |x| = 1 -
// 2^-25, and below 4e-4 up to 1 - 2^-32, the last that a uniform of 32 bits reaches.
[[nodiscard]] double erfinv(double x);

}  // namespace paceline
