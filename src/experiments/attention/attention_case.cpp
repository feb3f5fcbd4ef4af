#include "experiments/attention/attention_case.h"

namespace paceline {

namespace {

using C = AttentionCase;

Factors<C> shape_factors() {
  constexpr double most = 1 << 24;
  return factors_of<AttentionShapeFactors>(
      factor<C>(&C::causal, {.name = "causal",
                             .help = "a token sees those before it and itself alone",
                             .use = FactorUse::axis,
                             .bare = "yes"}),
      factor<C>(&C::head_dim, {.name = "head_dim",
                               .help = "elements of a head's row",
                               .use = FactorUse::axis,
                               .least = 1,
                               .most = 1 << 14}),
      factor<C>(&C::context, {.name = "context",
                              .help = "tokens per sequence",
                              .use = FactorUse::axis,
                              .least = 1,
                              .most = most}),
      factor<C>(&C::batch_size, {.name = "batch_size",
                                 .help = "sequences per rank",
                                 .use = FactorUse::axis,
                                 .least = 1,
                                 .most = 1 << 20}),
      factor<C>(&C::heads, {.name = "heads",
                            .help = "of every sequence",
                            .least = 1,
                            .most = 1 << 14,
                            .names_case = true}),
      factor<C>(&C::launch, {.name = "launch",
                             .help = "graph: replays of a CUDA graph, so that dispatch is not "
                                     "measured",
                             .names_case = true}),
      factor<C>(&C::cache, {.name = "cache",
                            .help = "cold: the last-level cache is flushed before each phase",
                            .names_case = true}));
}

}  // namespace

Factors<C> attention_case_factors() {
  return joined<C>({precision_factor<C>(), shape_factors(), attention_factors<C>("naive,flash"),
                    launch_factors<C>(), sampling_factors<C>()});
}

// Every preset pins every factor.
const Presets& attention_presets() {
  static const auto* const presets =
      new Presets{{"pytorch-attention",
                   {{"--attention", "naive,fused"},
                    {"--head-dim", "16,32,64,128"},
                    {"--context", "256,1024,4096,8192,16384"},
                    {"--batch-size", "8"},
                    {"--heads", "1"},
                    {"--causal", "no"},
                    {"--precision", "fp32"},
                    {"--fp32-attention", "bf16x3"},
                    {"--flash-kernels", "newest"},
                    {"--launch", "direct"},
                    {"--cache", "cold"},
                    {"--warmup", "5"},
                    {"--steps", "100"},
                    {"--until-ci", "0"},
                    {"--max-steps", "0"},
                    {"--seed", "0"},
                    {"--deterministic", "no"}}},
                  {"flash-benchmark",
                   {{"--attention", "naive,flash"},
                    {"--head-dim", "16,32,64,128"},
                    {"--context", "128,256,512,1024,2048,4096,8192,16384,32768,65536"},
                    {"--batch-size", "1"},
                    {"--heads", "1"},
                    {"--causal", "yes"},
                    {"--precision", "bf16,fp32"},
                    {"--fp32-attention", "bf16x3"},
                    {"--flash-kernels", "newest"},
                    {"--launch", "direct"},
                    {"--cache", "cold"},
                    {"--warmup", "5"},
                    {"--steps", "10"},
                    {"--until-ci", "2"},
                    {"--max-steps", "0"},
                    {"--seed", "0"},
                    {"--deterministic", "no"}}}};
  return *presets;
}

}  // namespace paceline
