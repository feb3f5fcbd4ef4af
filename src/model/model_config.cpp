#include "model/model_config.h"

#include <fmt/format.h>

#include <array>

#include "core/error.h"

namespace paceline {

namespace {

struct Named {
  std::string_view name;
  std::int64_t d_model, d_ff, layers, heads;
};

constexpr std::array<Named, 6> sizes = {{{"tiny", 64, 192, 2, 4},
                                         {"small", 768, 3072, 12, 12},
                                         {"medium", 1024, 4096, 24, 16},
                                         {"large", 1280, 5120, 36, 20},
                                         {"xl", 1600, 6400, 48, 25},
                                         {"2.7b", 2560, 10240, 32, 32}}};

void check_range(std::string_view option, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) {
    throw UsageError(fmt::format("{}: {} is out of range; use 1 to {}", option, value, most));
  }
}

}  // namespace

std::int64_t ModelConfig::parameters() const {
  return 2 * vocab * d_model + layers * (4 * d_model * d_model + 3 * d_model * d_ff + 2 * d_model) +
         d_model;
}

ModelConfig model_named(std::string_view size) {
  for (const Named& s : sizes) {
    if (s.name == size) {
      return {.d_model = s.d_model, .d_ff = s.d_ff, .layers = s.layers, .heads = s.heads};
    }
  }
  throw UsageError(
      fmt::format("--size: '{}' is no size; choose {}", size, fmt::join(model_names(), ", ")));
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> n;
    for (const Named& s : sizes) n.emplace_back(s.name);
    return n;
  }();
  return names;
}

void check_model(const ModelConfig& config) {
  check_range("--d-model", config.d_model, 1 << 20);
  check_range("--d-ff", config.d_ff, 1 << 22);
  check_range("--layers", config.layers, 4096);
  check_range("--heads", config.heads, 1 << 14);
  check_range("--vocab", config.vocab, 1 << 24);
  check_range("--context", config.context, 1 << 24);
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
