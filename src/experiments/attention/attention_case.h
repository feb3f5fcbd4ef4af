#pragma once
// What a case of `attention` fixes.

#include <cstdint>

#include "harness/attention_factors.h"
#include "harness/factor_options.h"

namespace paceline {

// direct: operation by operation; graph: replays of a captured graph, so that dispatch is not
// measured.
enum class AttentionLaunch : std::uint8_t { direct, graph };
constexpr auto names_of(AttentionLaunch) { return names("direct", "graph"); }

struct AttentionShapeFactors {
  YesNo causal = YesNo::no;
  std::int64_t head_dim = 64;
  std::int64_t context = 1024;
  std::int64_t batch_size = 8;
  std::int64_t heads = 1;
  AttentionLaunch launch = AttentionLaunch::direct;
  CacheState cache = CacheState::cold;

  [[nodiscard]] bool operator==(const AttentionShapeFactors&) const = default;
};

struct AttentionCase : PrecisionFactor,
                       AttentionShapeFactors,
                       AttentionFactors,
                       LaunchFactors,
                       SamplerConfig {
  [[nodiscard]] bool operator==(const AttentionCase&) const = default;

  [[nodiscard]] AttentionShape shape() const {
    return {.batch = batch_size,
            .context = context,
            .heads = heads,
            .head_dim = head_dim,
            .causal = causal == YesNo::yes};
  }
};

// The cases in order: naive beside the others of the same other factors.
[[nodiscard]] Factors<AttentionCase> attention_case_factors();
[[nodiscard]] const Presets& attention_presets();

}  // namespace paceline
