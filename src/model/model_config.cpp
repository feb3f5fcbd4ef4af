#include "model/model_config.h"

#include <fmt/format.h>

#include <array>

#include "core/error.h"

namespace paceline {

namespace {

// Indexed by ModelSize.
constexpr std::array<ModelConfig, 7> sizes = {
    {{.d_model = 64, .d_ff = 192, .layers = 2, .heads = 4},
     {.d_model = 768, .d_ff = 3072, .layers = 12, .heads = 12},
     {.d_model = 1024, .d_ff = 4096, .layers = 24, .heads = 16},
     {.d_model = 1280, .d_ff = 5120, .layers = 36, .heads = 20},
     {.d_model = 1600, .d_ff = 6400, .layers = 48, .heads = 25},
     {.d_model = 2560, .d_ff = 10240, .layers = 32, .heads = 32},
     {.d_model = 4608, .d_ff = 12288, .layers = 50, .heads = 36}}};

}  // namespace

std::int64_t ModelConfig::parameters() const {
  return 2 * vocab * d_model + layers * (4 * d_model * d_model + 3 * d_model * d_ff + 2 * d_model) +
         d_model;
}

ModelConfig model_of(ModelSize size) {
  if (size == ModelSize::custom) throw InternalError("the size 'custom' has no preset dimensions");
  return sizes.at(static_cast<std::size_t>(size));
}

void check_model(const ModelConfig& config) {
  if (config.d_model % config.heads != 0) {
    throw UsageError(fmt::format("--heads: {} heads do not divide --d-model {}; choose a divisor",
                                 config.heads, config.d_model));
  }
  if (config.head_dim() % 2 != 0) {
    throw UsageError(
        fmt::format("--heads: {} heads of --d-model {} have {} elements each; RoPE "
                    "needs an even number",
                    config.heads, config.d_model, config.head_dim()));
  }
}

}  // namespace paceline
