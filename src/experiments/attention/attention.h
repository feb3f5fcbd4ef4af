#pragma once
// `paceline attention`: naive, fused and flash attention. Every rank measures independently, with
// its own inputs. Results are checked before timing.

#include <cstdint>
#include <memory>

#include "harness/attention_factors.h"
#include "harness/experiment.h"
#include "harness/factor_options.h"

namespace paceline {

// direct: operations are launched one by one. graph: a captured CUDA graph is replayed, so that
// dispatch is not measured.
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

// In the order of the sweep: cases that differ only in the attention kind are adjacent.
[[nodiscard]] Factors<AttentionCase> attention_case_factors();

// peak_tflops: 0 for the data sheet's. Throws UsageError for an option that applies to no case.
[[nodiscard]] std::unique_ptr<Experiment> attention_experiment(
    const FactorOptions<AttentionCase>& options, World& world, Device& device, double peak_tflops);

}  // namespace paceline
