// The factors, presets and command of `attention`.

#include "experiments/attention/attention.h"
#include "experiments/rank_command.h"

namespace paceline {

using C = AttentionCase;

namespace {

const Presets& attention_presets() {
  static const Presets presets = {
      {"pytorch-attention",
       "--attention naive,fused --head-dim 16,32,64,128 --context 256,1024,4096,8192,16384 "
       "--steps 100"},
      {"flash-benchmark",
       "--head-dim 16,32,64,128 --context 128..65536*2 --batch-size 1 --causal yes "
       "--precision bf16,fp32 --until-ci 2"},
      // The course's leaderboard times forward and backward together: our phase `both`.
      {"leaderboard",
       "--attention flash --context 16384 --batch-size 1 --heads 16 --causal yes "
       "--precision bf16 --warmup 10 --max-warmup 200 --steps 100"}};
  return presets;
}

}  // namespace

Factors<C> attention_case_factors() {
  const Factors<C> shape = factors_of<AttentionShapeFactors>(
      axis<C>(&C::causal, "causal", "a token attends only to itself and earlier tokens")
          .implicit("yes"),
      axis<C>(&C::head_dim, "head_dim", "elements of a head's row").from(1, 1 << 14),
      axis<C>(&C::context, "context", "tokens per sequence").in("tokens").from(1, 1 << 24),
      axis<C>(&C::batch_size, "batch_size", "sequences per rank").from(1, 1 << 20),
      setting<C>(&C::heads, "heads", "attention heads").from(1, 1 << 14).naming(),
      setting<C>(&C::launch, "launch",
                 "how kernels are launched; graph: a CUDA graph, so that dispatch is not measured")
          .naming(),
      setting<C>(&C::cache, "cache",
                 "state before each phase; cold: the last-level cache is flushed")
          .naming());
  return joined<C>({precision_factor<C>(), shape, attention_factors<C>("naive,flash"),
                    launch_factors<C>(), sampling_factors<C>()});
}

std::unique_ptr<Command> attention_command() {
  return std::make_unique<RankCommand<AttentionCase>>(attention_case_factors(), attention_presets(),
                                                      attention_experiment, true);
}

}  // namespace paceline
