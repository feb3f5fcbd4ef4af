#pragma once
// LayerNorm and RMSNorm without weights, with every operation rounded to the dtype of the input:
// they show the errors of norms that do not compute their statistics in float32.

#include <cmath>
#include <cstdint>

#include "core/summation.h"

namespace paceline {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
constexpr auto names_of(NormKind) { return names("layer_norm", "rms_norm"); }

// One row of n elements: center = mean(x), or 0 for RMSNorm; y = (x - center) / sqrt(mean((x -
// center)^2) + eps). Sums are pairwise. x(j) reads element j; write(j, y) writes it.
template <class C, class Element, class Write, class Round>
HOST_DEVICE void rounded_norm_row(NormKind kind, std::int64_t n, C eps, Element x, Write write,
                                  Round round) {
  const C count = static_cast<C>(n);
  const C center = kind == NormKind::layer_norm ? round(pairwise_sum<C>(n, x, round) / count) : 0;
  const auto difference = [=](std::int64_t j) { return round(x(j) - center); };
  const auto square = [=](std::int64_t j) { return round(difference(j) * difference(j)); };
  const C mean_square = round(pairwise_sum<C>(n, square, round) / count);
  const C root = round(std::sqrt(round(mean_square + round(eps))));
  const C rstd = round(1 / root);
  for (std::int64_t j = 0; j < n; ++j) write(j, round(difference(j) * rstd));
}

}  // namespace paceline
