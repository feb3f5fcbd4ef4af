#include "core/random.h"

#include <cmath>
#include <numbers>

namespace paceline {

namespace {

constexpr std::uint64_t low_word = 0xffffffffU;

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x & low_word); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32U); }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c,
                                    std::array<std::uint32_t, 2> k) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53U;
  constexpr std::uint64_t multiplier1 = 0xCD9E8D57U;
  constexpr int rounds = 10;
  for (int r = 0; r < rounds; ++r) {
    const std::uint64_t p0 = multiplier0 * c[0];
    const std::uint64_t p1 = multiplier1 * c[2];
    c = {high(p1) ^ c[1] ^ k[0], low(p1), high(p0) ^ c[3] ^ k[1], low(p0)};
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return c;
}

std::array<double, 4> Random::uniform4(std::uint64_t quad) const {
  const auto words =
      philox({low(quad), high(quad), low(stream_), high(stream_)}, {low(seed_), high(seed_)});
  std::array<double, 4> u{};
  for (std::size_t k = 0; k < 4; ++k) u[k] = (words[k] + 0.5) * 0x1p-32;
  return u;
}

template <class T, class F>
void Random::fill(std::span<T> out, std::uint64_t offset, F of_uniform) const {
  const std::uint64_t end = offset + out.size();
#pragma omp parallel for schedule(static)
  for (std::uint64_t quad = offset / 4; quad < (end + 3) / 4; ++quad) {
    const std::array<double, 4> u = uniform4(quad);
    for (std::uint64_t k = 0; k < 4; ++k) {
      const std::uint64_t i = 4 * quad + k;
      if (i >= offset && i < end) out[i - offset] = of_uniform(u[k]);
    }
  }
}

void Random::fill_normal(std::span<float> out, double std, std::uint64_t offset) const {
  fill(out, offset, [std](double u) {
    return static_cast<float>(std * std::numbers::sqrt2 * erfinv(2 * u - 1));
  });
}

void Random::fill_truncated_normal(std::span<float> out, double std, double cut,
                                   std::uint64_t offset) const {
  const double bound = std::erf(cut / (std * std::numbers::sqrt2));
  fill(out, offset, [=](double u) {
    const double x = std * std::numbers::sqrt2 * erfinv(bound * (2 * u - 1));
    return static_cast<float>(std::fmin(cut, std::fmax(-cut, x)));
  });
}

void Random::fill_integers(std::span<std::int32_t> out, std::int32_t below,
                           std::uint64_t offset) const {
  fill(out, offset, [below](double u) { return static_cast<std::int32_t>(u * below); });
}

double erfinv(double x) {
  // M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2010), single precision.
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

}  // namespace paceline
