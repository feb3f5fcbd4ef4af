// The factors of `model`, `ddp` and `zero`, each declared once.

#include "experiments/training/training_case.h"

namespace paceline {

namespace {

using C = TrainingCase;

constexpr double most_context = 1 << 24;

Factors<C> model_factors() {
  return factors_of<ModelFactors>(
      factor<C>(&C::size, {.name = "size",
                           .help = "custom: by --d-model, --d-ff, --layers and --heads",
                           .use = FactorUse::axis}),
      factor<C>(&C::context, {.name = "context",
                              .help = "tokens per sequence",
                              .use = FactorUse::axis,
                              .least = 1,
                              .most = most_context}),
      factor<C>(&C::batch_size, {.name = "batch_size",
                                 .help = "sequences per rank",
                                 .use = FactorUse::axis,
                                 .least = 1,
                                 .most = 1 << 20}));
}

// A dimension of a custom size; 0 where --size says it.
Factor<C> dimension(std::int64_t StepFactors::*field, std::string_view name, std::string_view help,
                    double most) {
  return factor<C>(
      field, {.name = name, .help = help, .said_default = "by --size", .least = 1, .most = most});
}

Factor<C> hyperparameter(double StepFactors::*field, std::string_view name, std::string_view help,
                         std::string_view option, double most) {
  return factor<C>(field, {.name = name, .help = help, .option = option, .most = most});
}

Factors<C> step_factors() {
  return factors_of<StepFactors>(
      factor<C>(&C::execution, {.name = "exec", .use = FactorUse::axis}),
      factor<C>(&C::mode,
                {.name = "mode",
                 .help = "what of a step is run; inference frees activations, forward keeps what "
                         "backward needs",
                 .use = FactorUse::axis}),
      factor<C>(&C::recompute, {.name = "recompute",
                                .help = "keep only the input of every block, or of every K blocks",
                                .use = FactorUse::axis,
                                .applies = [](const C& c) { return c.mode != Mode::inference; },
                                .goes_with = "--mode forward, forward-backward or train-step"}),
      dimension(&C::d_model, "d_model", "width of the residual stream", 1 << 20),
      dimension(&C::d_ff, "d_ff", "width of the feed-forward layers", 1 << 22),
      dimension(&C::layers, "layers", "blocks", 4096),
      dimension(&C::heads, "heads", "attention heads; must divide --d-model", 1 << 14),
      factor<C>(&C::vocab, {.name = "vocab", .help = "vocabulary", .least = 2, .most = 1 << 24}),
      factor<C>(&C::timing,
                {.name = "timing",
                 .help = "phases: synchronise after each phase; step: once per step, phases from "
                         "events"}),
      hyperparameter(&C::learning_rate, "learning_rate", "AdamW, in torch.optim.AdamW's form",
                     "--lr", 1e6),
      hyperparameter(&C::beta1, "beta1", "", "", 0.999999),
      hyperparameter(&C::beta2, "beta2", "", "", 0.99999999),
      hyperparameter(&C::eps, "eps", "", "", 1),
      hyperparameter(&C::weight_decay, "weight_decay", "", "", 1e6),
      factor<C>(&C::weights, {.name = "weights",
                              .help = "HDF5 with datasets by the reference's state-dict names, at "
                                      "the root or under weights/",
                              .option = "--load-weights"}),
      factor<C>(&C::tokens, {.name = "tokens",
                             .help = "HDF5 with tokens (and targets) [B, T], or a flat file of "
                                     "uint16"}),
      factor<C>(&C::memory_timeline,
                {.name = "memory_timeline",
                 .help = "record every allocation and release of one step more, after the "
                         "measured ones",
                 .bare = "yes"}));
}

Factor<C> sync_factor() {
  return factor_among<C>(
      &C::strategy,
      {.name = "sync",
       .help = "naive: an all_reduce per parameter after backward; flat: one of all gradients; "
               "overlap: each parameter's as its gradient is ready; bucketed: in buckets",
       .use = FactorUse::axis,
       .defaults = "bucketed"},
      {{"none", Strategy::none},
       {"naive", Strategy::naive},
       {"flat", Strategy::flat},
       {"overlap", Strategy::overlap},
       {"bucketed", Strategy::bucketed}});
}

Factor<C> shard_factor() {
  return factor_among<C>(
      &C::strategy,
      {.name = "shard",
       .help = "none: bucketed ddp; broadcast: whole tensors have owners, who update and "
               "broadcast them; zero1: reduce_scatter of gradients, all_gather of parameters "
               "beside the next forward",
       .use = FactorUse::axis,
       .defaults = "zero1"},
      {{"none", Strategy::bucketed},
       {"broadcast", Strategy::owner_broadcast},
       {"zero1", Strategy::zero1}});
}

bool exchanges(const C& c) { return c.exchanges(); }

bool has_buckets(const C& c) {
  return c.strategy == Strategy::bucketed || c.strategy == Strategy::owner_broadcast ||
         c.strategy == Strategy::zero1;
}

constexpr std::string_view a_sync = "a --sync other than none";

// strategy: how the experiment names it. verify_steps: of --verify without a number.
Factors<C> exchange_factors(Factor<C> strategy, std::string_view verify_steps) {
  return factors_of<ExchangeFactors>(
      std::move(strategy),
      factor<C>(&C::bucket_mb, {.name = "bucket_mb",
                                .help = "most MB of gradients in a bucket",
                                .use = FactorUse::axis,
                                .most = 1e9,
                                .applies = has_buckets,
                                .goes_with = "--sync bucketed"}),
      factor<C>(&C::comm_dtype, {.name = "comm_dtype",
                                 .help = "what gradients are sent as",
                                 .use = FactorUse::axis,
                                 .applies = exchanges,
                                 .goes_with = a_sync}),
      factor<C>(&C::registration,
                {.name = "registration",
                 .help = "symmetric: parameters and gradients lie in windows that all ranks have "
                         "registered with NCCL, whose collectives then need fewer of the GPU's "
                         "multiprocessors",
                 .use = FactorUse::axis,
                 .said_default = "symmetric with NCCL on one node, else none",
                 .applies = exchanges,
                 .goes_with = a_sync}),
      factor<C>(
          &C::verify,
          {.name = "verify",
           .help = "compares this many steps of SGD, then of AdamW, with a single process that "
                   "trains on the whole batch (fp32)",
           .bare = verify_steps,
           .least = 1,
           .most = 1000,
           .applies = exchanges,
           .goes_with = a_sync}));
}

}  // namespace

Factors<C> training_factors(TrainingKind kind) {
  Factors<C> exchange;
  switch (kind) {
    case TrainingKind::model: break;
    case TrainingKind::ddp: exchange = exchange_factors(sync_factor(), "5"); break;
    case TrainingKind::zero: exchange = exchange_factors(shard_factor(), "10"); break;
  }
  return joined<C>({model_factors(), precision_factor<C>(), attention_factors<C>("naive"),
                    step_factors(), exchange, launch_factors<C>(), sampling_factors<C>()});
}

TrainingCase training_defaults(TrainingKind kind) {
  TrainingCase c;
  if (kind != TrainingKind::model) c.timing = Timing::step;
  return c;
}

}  // namespace paceline
