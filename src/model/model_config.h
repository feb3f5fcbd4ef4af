#pragma once
// Dimensions of the course's model: a pre-norm Transformer language model with RoPE, RMSNorm and
// SwiGLU, without biases; the head is not tied to the embedding.

#include <cstdint>

#include "core/enum_names.h"

namespace paceline {

struct ModelConfig {
  std::int64_t vocab = 10000;  // V
  std::int64_t context = 128;  // T
  std::int64_t d_model = 0;    // D
  std::int64_t d_ff = 0;       // F
  std::int64_t layers = 0;     // L
  std::int64_t heads = 0;      // H
  double rope_theta = 10000;

  [[nodiscard]] std::int64_t head_dim() const { return d_model / heads; }
  // 2 V D + L (4 D^2 + 3 D F + 2 D) + D
  [[nodiscard]] std::int64_t parameters() const;
};

// custom: dimensions are given one by one.
enum class ModelSize : std::uint8_t { tiny, small, medium, large, xl, size_2_7b, size_10b, custom };
constexpr auto names_of(ModelSize) {
  return names("tiny", "small", "medium", "large", "xl", "2.7b", "10b", "custom");
}

// Vocabulary and context have their defaults. Throws InternalError for custom.
[[nodiscard]] ModelConfig model_of(ModelSize size);

// Dimensions are at least 1. Throws UsageError (--heads) if heads do not divide d_model, or the
// head dimension is odd (RoPE rotates pairs of elements).
void check_model(const ModelConfig& config);

}  // namespace paceline
