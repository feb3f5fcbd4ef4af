#pragma once
// Counter-based random numbers (Philox4x32-10, Salmon et al., SC'11): element i of a stream is a
// function of (seed, stream, i) alone, so that the values do not depend on the number of threads,
// ranks or devices.

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>

// Functions that kernels also call.
#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif

namespace paceline {

// Philox4x32-10 of counter c and key k.
[[nodiscard]] HOST_DEVICE inline std::array<std::uint32_t, 4> philox(
    std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53U;
  constexpr std::uint64_t multiplier1 = 0xCD9E8D57U;
  constexpr int rounds = 10;
  for (int r = 0; r < rounds; ++r) {
    const std::uint64_t p0 = multiplier0 * c[0];
    const std::uint64_t p1 = multiplier1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32U) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32U) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return c;
}

// The inverse of the error function on (-1, 1): the relative error stays below 1e-6 up to |x| = 1 -
// 2^-25, and below 4e-4 up to 1 - 2^-32, the largest that a 32-bit uniform reaches.
// M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2010), single precision.
[[nodiscard]] HOST_DEVICE inline double erfinv(double x) {
  double w = -std::log((1 - x) * (1 + x));
  double p = 0;
  if (w < 5) {
    w -= 2.5;
    for (const double c :
         {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
          -0.00125372503, -0.00417768164, 0.246640727, 1.50140941}) {
      p = c + p * w;
    }
  } else {
    w = std::sqrt(w) - 3;
    for (const double c : {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                           0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682}) {
      p = c + p * w;
    }
  }
  return p * x;
}

class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  // Elements 4 quad to 4 quad + 3, uniform in (0, 1): 32 bits each, never 0 or 1.
  [[nodiscard]] HOST_DEVICE std::array<double, 4> uniform4(std::uint64_t quad) const {
    const auto words =
        philox({static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(quad >> 32U),
                static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32U)},
               {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)});
    return {(words[0] + 0.5) * 0x1p-32, (words[1] + 0.5) * 0x1p-32, (words[2] + 0.5) * 0x1p-32,
            (words[3] + 0.5) * 0x1p-32};
  }

  // Calls put(i, u) for the elements [offset, end), in parallel: u is uniform in (0, 1).
  template <class F>
  void for_each(std::uint64_t offset, std::uint64_t end, F put) const {
#pragma omp parallel for schedule(static)
    for (std::uint64_t quad = offset / 4; quad < (end + 3) / 4; ++quad) {
      const std::array<double, 4> u = uniform4(quad);
      for (std::uint64_t k = 0; k < 4; ++k) {
        const std::uint64_t i = 4 * quad + k;
        if (i >= offset && i < end) put(i, u[k]);
      }
    }
  }

  // Fills `out` with normal values of elements offset, offset + 1, ..., in parallel.
  void fill_normal(std::span<float> out, double std = 1, std::uint64_t offset = 0) const {
    for_each(offset, offset + out.size(), [=](std::uint64_t i, double u) {
      out[i - offset] = static_cast<float>(std * std::numbers::sqrt2 * erfinv(2 * u - 1));
    });
  }
  // The same with integers in [0, below).
  void fill_integers(std::span<std::int32_t> out, std::int32_t below,
                     std::uint64_t offset = 0) const {
    for_each(offset, offset + out.size(), [=](std::uint64_t i, double u) {
      out[i - offset] = static_cast<std::int32_t>(u * below);
    });
  }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

// torch.nn.init.trunc_normal_: normal with standard deviation std, truncated to [-cut, cut], by
// inversion of the cumulative distribution function.
class TruncatedNormal {
 public:
  TruncatedNormal(double std, double cut)
      : std_(std), cut_(cut), bound_(std::erf(cut / (std * std::numbers::sqrt2))) {}

  // u: uniform in (0, 1).
  [[nodiscard]] HOST_DEVICE float operator()(double u) const {
    const double x = std_ * std::numbers::sqrt2 * erfinv(bound_ * (2 * u - 1));
    return static_cast<float>(std::fmin(cut_, std::fmax(-cut_, x)));
  }

 private:
  double std_;
  double cut_;
  double bound_;
};

}  // namespace paceline
