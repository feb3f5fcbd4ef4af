#include "experiments/training/training_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/transformer.h"

namespace paceline {

Recompute FactorValue<Recompute>::read(std::string_view text, const Range& /*range*/) {
  constexpr int most = 9999;
  if (text == "none") return {};
  if (text == "swiglu") return {.swiglu = true};
  if (text == "block") return {.blocks = 1};
  try {
    return {.blocks = static_cast<int>(parse_integer(text, 1, most))};
  } catch (const UsageError&) {
    throw UsageError(fmt::format(
        "'{}' is unknown; use none, swiglu, block or a number of blocks from 1 to {}", text, most));
  }
}

Value FactorValue<Recompute>::write(Recompute value) {
  if (value.swiglu) return std::string("swiglu");
  if (value.blocks == 0) return std::string("none");
  return value.blocks == 1 ? std::string("block") : std::to_string(value.blocks);
}

ModelConfig TrainingCase::model() const {
  return {.vocab = vocab,
          .context = context,
          .d_model = d_model,
          .d_ff = d_ff,
          .layers = layers,
          .heads = heads};
}

OpsConfig TrainingCase::ops_config() const {
  OpsConfig config = ops_config_of(*this);
  config.execution = execution;
  if (comm_dtype == GradientDtype::bf16) config.precision.communication = Dtype::bf16;
  return config;
}

AdamWConfig TrainingCase::adamw() const {
  return {.beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = weight_decay};
}

bool TrainingCase::gains_from_windows() const {
  constexpr double long_message = 100e6;  // bytes
  const std::size_t element = size_of(ops_config().precision.communication);
  const double message = static_cast<double>(model().parameters()) * static_cast<double>(element);
  return strategy != Strategy::flat || message < long_message;
}

StrategyConfig TrainingCase::strategy_config() const {
  constexpr double mega = 1e6;
  return {.strategy = strategy,
          .bucket_bytes = mega * bucket_mb,
          .registered = registration == WindowRegistration::symmetric,
          .prefetch = prefetch,
          .reshard = reshard};
}

StrategyShape TrainingCase::strategy_shape() const {
  return {.config = strategy_config(),
          .entries = Transformer::entries(model()),
          .precision = ops_config().precision,
          .ranks = static_cast<int>(ranks)};
}

StepShape TrainingCase::step_shape() const {
  const StrategyShape shape = strategy_shape();
  const std::vector<double> shares = shape.optimizer_shares();
  const StrategyShape::Gradients gradients = shape.gradients(recycles_gradients());
  return {.model = model(),
          .precision = ops_config().precision,
          .attention = attention,
          .batch = batch_size,
          .mode = mode,
          .recompute = recompute.blocks,
          .recompute_swiglu = recompute.swiglu,
          .parameter_share = shape.parameter_share(),
          .gathered = shape.gathered(),
          .optimizer_share = *std::max_element(shares.begin(), shares.end()),
          .gradient_elements = gradients.kept,
          .gradient_window = gradients.window,
          .upcasts_gemm_inputs = device == DeviceKind::cpu};
}

Batch TrainingCase::rows(std::int64_t first, std::int64_t count) const {
  const BatchShape shape{.first_row = first,
                         .rows = count,
                         .context = context,
                         .vocab = vocab,
                         .all_rows = batch_size * ranks};
  if (tokens == "random") return random_batch(shape, static_cast<std::uint64_t>(seed));
  return load_batch(tokens, shape, token_dtype);
}

}  // namespace paceline
