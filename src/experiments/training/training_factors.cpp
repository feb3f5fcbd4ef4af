// The factors of `model`, `ddp` and `zero`, each declared once.

#include <fmt/format.h>

#include "experiments/training/training_case.h"

namespace paceline {

namespace {

using C = TrainingCase;

Factors<C> model_factors() {
  return factors_of<ModelFactors>(
      axis<C>(&C::size, "size",
              "model size; custom: given by --d-model, --d-ff, --layers and --heads"),
      axis<C>(&C::context, "context", "tokens per sequence").in("tokens").from(1, 1 << 24),
      axis<C>(&C::batch_size, "batch_size", "sequences per rank").from(1, 1 << 20));
}

// A dimension of a custom size; 0: given by --size.
Factor<C> dimension(std::int64_t StepFactors::*field, std::string_view name, std::string_view help,
                    double most) {
  return setting<C>(field, name, help).from(1, most).described_default("by --size");
}

Factors<C> step_factors() {
  return factors_of<StepFactors>(
      axis<C>(&C::execution, "exec",
              "how steps are executed; compiled: fused operations, tuned GEMMs (not with "
              "--deterministic), CUDA graphs"),
      axis<C>(&C::mode, "mode",
              "which part of a step runs; inference frees activations, forward keeps them for "
              "backward"),
      axis<C>(&C::optimizer, "optimizer",
              "when AdamW runs; in-backward: parameters are updated concurrently with backward, as "
              "soon as their gradients are final")
          .where([](const C& c) { return c.mode == Mode::train_step; }, "--mode train-step"),
      axis<C>(&C::recompute, "recompute",
              "what backward recomputes; block, K: only the input of every block, or of every K "
              "blocks, is kept; swiglu: everything but SwiGLU's result is kept")
          .where([](const C& c) { return c.mode != Mode::inference; },
                 "--mode forward, forward-backward or train-step"),
      dimension(&C::d_model, "d_model", "width of the residual stream", 1 << 20),
      dimension(&C::d_ff, "d_ff", "width of the feed-forward layers", 1 << 22),
      dimension(&C::layers, "layers", "blocks", 4096),
      dimension(&C::heads, "heads", "attention heads; must divide --d-model", 1 << 14),
      setting<C>(&C::vocab, "vocab", "tokens in the vocabulary").from(2, 1 << 24),
      setting<C>(&C::timing, "timing",
                 "how phases are timed; phases: synchronise after each; step: once per step, "
                 "phases from events"),
      setting<C>(&C::learning_rate, "learning_rate",
                 "AdamW's learning rate, as in torch.optim.AdamW")
          .called("--lr")
          .from(0, 1e6),
      setting<C>(&C::beta1, "beta1", "AdamW's decay of the first moment").from(0, 0.999999),
      setting<C>(&C::beta2, "beta2", "AdamW's decay of the second moment").from(0, 0.99999999),
      setting<C>(&C::eps, "eps", "AdamW's epsilon").from(0, 1),
      setting<C>(&C::weight_decay, "weight_decay", "AdamW's decoupled weight decay").from(0, 1e6),
      setting<C>(&C::weights, "weights",
                 "initial weights: HDF5 with datasets by the reference's state-dict names, at the "
                 "root or under weights/")
          .called("--load-weights"),
      setting<C>(
          &C::tokens, "tokens",
          "batches: HDF5 with tokens (and targets) [B, T], NumPy's .npy [B, T] or [tokens], "
          "llm.c's .bin, or a flat file of --token-dtype; without targets, the target is the next "
          "token; if a row of [B, T] ends there, the last position is not in the loss"),
      setting<C>(&C::token_dtype, "token_dtype",
                 "dtype of a flat file of tokens; others name their own")
          .described_default("uint16")
          .where([](const C& c) { return c.tokens != "random"; }, "--tokens"),
      setting<C>(&C::memory_timeline, "memory_timeline",
                 "record every allocation and release of an additional step, after the measured "
                 "ones")
          .implicit("yes"));
}

Factor<C> sync_factor() {
  return axis_among<C>(
             &C::strategy, "sync",
             "exchange of gradients; naive: one all_reduce per parameter after backward; "
             "flat: one all_reduce of all gradients; overlap: one per parameter, when its "
             "gradient is ready; bucketed: one per bucket",
             {{"none", Strategy::none},
              {"naive", Strategy::naive},
              {"flat", Strategy::flat},
              {"overlap", Strategy::overlap},
              {"bucketed", Strategy::bucketed}})
      .by_default("bucketed");
}

Factor<C> shard_factor() {
  return axis_among<C>(
             &C::strategy, "shard",
             "what is sharded over ranks; none: nothing (bucketed ddp); broadcast: each tensor has "
             "an owner rank, which updates and broadcasts it; zero1: reduce_scatter of gradients, "
             "all_gather of parameters during the next forward; zero2: gradients are sharded too; "
             "fsdp: parameters are sharded too and gathered block by block ahead of use",
             {{"none", Strategy::bucketed},
              {"broadcast", Strategy::owner_broadcast},
              {"zero1", Strategy::zero1},
              {"zero2", Strategy::zero2},
              {"fsdp", Strategy::fsdp}})
      .by_default("zero1");
}

bool exchanges(const C& c) { return c.exchanges(); }

bool is_fsdp(const C& c) { return c.strategy == Strategy::fsdp; }

bool has_buckets(const C& c) {
  return c.strategy == Strategy::bucketed || c.strategy == Strategy::owner_broadcast ||
         (is_sharded(c.strategy) && !is_fsdp(c));
}

// strategy: the experiment's factor of the strategy. buckets: its values that use buckets, as text.
// verify_steps: the value of --verify without a number.
Factors<C> exchange_factors(const Factor<C>& strategy, std::string_view buckets,
                            std::string_view verify_steps) {
  constexpr std::string_view a_sync = "a --sync other than none";
  return factors_of<ExchangeFactors>(
      strategy,
      axis<C>(&C::bucket_mb, "bucket_mb", "maximum MB of gradients per bucket")
          .in("MB")
          .from(0, 1e9)
          .where(has_buckets, buckets),
      axis<C>(&C::comm_dtype, "comm_dtype", "dtype in which gradients are sent")
          .where(exchanges, a_sync),
      axis<C>(&C::registration, "registration",
              "registration of buffers with NCCL; symmetric: all ranks register parameters and "
              "gradients as windows, on which collectives occupy fewer multiprocessors")
          .described_default(
              "symmetric with NCCL on one node, but not for a flat exchange of 100 MB or more; "
              "else none")
          .where(exchanges, a_sync),
      setting<C>(&C::verify, "verify",
                 "number of steps of SGD, then of AdamW, to compare with a single process that "
                 "trains on the whole batch (fp32); 0: none")
          .implicit(verify_steps)
          .from(0, 1000)
          .where(exchanges, a_sync));
}

Factors<C> gather_factors() {
  constexpr std::string_view fsdp = "--shard fsdp";
  return factors_of<GatherFactors>(
      axis<C>(&C::prefetch, "prefetch",
              "units (a block, the head) gathered ahead of the one in use")
          .from(0, 64)
          .where(is_fsdp, fsdp),
      axis<C>(&C::reshard, "reshard",
              "whether gathered parameters are freed after use; yes: backward gathers them again "
              "unless they are still in a slot; no: every unit has its own slot")
          .where(is_fsdp, fsdp));
}

// "--d-model, --d-ff and --heads"
std::string listed(const std::vector<std::string>& options) {
  return options.size() < 2
             ? fmt::format("{}", fmt::join(options, ""))
             : fmt::format("{} and {}", fmt::join(options.begin(), options.end() - 1, ", "),
                           options.back());
}

}  // namespace

Factors<C> training_factors(TrainingKind kind) {
  Factors<C> own;
  switch (kind) {
    case TrainingKind::model: break;
    case TrainingKind::ddp: own = exchange_factors(sync_factor(), "--sync bucketed", "5"); break;
    case TrainingKind::zero:
      own = joined<C>(
          {exchange_factors(shard_factor(), "a --shard other than fsdp", "10"), gather_factors()});
      break;
  }
  return joined<C>({model_factors(), precision_factor<C>(), attention_factors<C>("naive"),
                    step_factors(), own, launch_factors<C>(), sampling_factors<C>()});
}

TrainingCase training_defaults(TrainingKind kind) {
  TrainingCase c;
  if (kind != TrainingKind::model) c.timing = Timing::step;
  return c;
}

void read_custom_size(const OptionParser& p, FactorOptions<TrainingCase>& factors,
                      const std::vector<std::string>& dimensions) {
  std::vector<std::string> given;
  std::vector<std::string> missing;
  for (const std::string& option : dimensions) {
    (p.given(option) ? given : missing).push_back(option);
  }
  const bool says_custom = p.text("--size") == "custom";
  if (given.empty() && !says_custom) return;
  if (p.by_name("--size") && !says_custom) {
    throw UsageError(
        fmt::format("--size: cannot be combined with {}; leave --size out", listed(given)));
  }
  if (!missing.empty()) {
    throw UsageError(fmt::format("{} {}",
                                 says_custom ? "--size: custom needs" : given.front() + ": needs",
                                 listed(missing)));
  }
  factors.replace("--size", "custom");
}

}  // namespace paceline
