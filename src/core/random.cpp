#include "core/random.h"

namespace paceline {

void Random::fill_normal(std::span<float> out, double std, std::uint64_t offset) const {
  for_each(offset, offset + out.size(), [=](std::uint64_t i, double u) {
    out[i - offset] = static_cast<float>(std * std::numbers::sqrt2 * erfinv(2 * u - 1));
  });
}

void Random::fill_integers(std::span<std::int32_t> out, std::int32_t below,
                           std::uint64_t offset) const {
  for_each(offset, offset + out.size(), [=](std::uint64_t i, double u) {
    out[i - offset] = static_cast<std::int32_t>(u * below);
  });
}

}  // namespace paceline
