#pragma once
// The factors of a case of `model`, `ddp` or `zero`.

#include <cstdint>
#include <optional>
#include <string>

#include "harness/attention_factors.h"
#include "harness/factor_options.h"
#include "harness/run_options.h"
#include "model/accounting.h"
#include "model/batch.h"
#include "parallel/parallel_strategy.h"
#include "parallel/strategy_accounting.h"

namespace paceline {

// The three experiments that measure training.
enum class TrainingKind : std::uint8_t { model, ddp, zero };
constexpr auto names_of(TrainingKind) { return names("model", "ddp", "zero"); }

// phases: the host synchronises after each phase; step: once per step, and events time the phases.
enum class Timing : std::uint8_t { phases, step };
constexpr auto names_of(Timing) { return names("phases", "step"); }

// serial: the optimizer runs after backward. in_backward: each range of parameters is updated
// concurrently with backward, as soon as its gradients are final.
enum class OptimizerOrder : std::uint8_t { serial, in_backward };
constexpr auto names_of(OptimizerOrder) { return names("serial", "in-backward"); }

// The dtype in which ranks exchange gradients.
enum class GradientDtype : std::uint8_t { fp32, bf16 };
constexpr auto names_of(GradientDtype) { return names("fp32", "bf16"); }

// Activation recomputation.
struct Recompute {
  int blocks = 0;       // K > 0: keep only the input of every K blocks; 0: keep all activations
  bool swiglu = false;  // with blocks = 0: recompute SwiGLU's result

  [[nodiscard]] bool operator==(const Recompute&) const = default;
};
template <>
struct FactorValue<Recompute> {
  static constexpr ValueType type = ValueType::name;
  static Recompute read(std::string_view text, const Range& range);
  static Value write(Recompute value);
  static std::string choices() { return "none swiglu block K"; }
};

struct ModelFactors {
  ModelSize size = ModelSize::small;
  std::int64_t context = 128;
  std::int64_t batch_size = 4;  // per rank

  [[nodiscard]] bool operator==(const ModelFactors&) const = default;
};

struct StepFactors {
  Execution execution = Execution::eager;
  Mode mode = Mode::train_step;
  OptimizerOrder optimizer = OptimizerOrder::serial;
  Recompute recompute;
  std::int64_t d_model = 0;
  std::int64_t d_ff = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t vocab = 10000;
  Timing timing = Timing::phases;
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  std::string weights = "random";  // or a file's path
  std::string tokens = "random";   // or a file's path
  std::optional<TokenDtype> token_dtype;
  bool memory_timeline = false;

  [[nodiscard]] bool operator==(const StepFactors&) const = default;
};

struct ExchangeFactors {
  Strategy strategy = Strategy::none;
  double bucket_mb = 25;
  GradientDtype comm_dtype = GradientDtype::fp32;
  std::optional<WindowRegistration> registration;
  int verify = 0;  // steps of SGD, and of AdamW, compared with single-process training; 0: none

  [[nodiscard]] bool operator==(const ExchangeFactors&) const = default;
};

// Factors of --shard fsdp.
struct GatherFactors {
  int prefetch = 1;
  Reshard reshard = Reshard::yes;

  [[nodiscard]] bool operator==(const GatherFactors&) const = default;
};

struct TrainingCase : ModelFactors,
                      PrecisionFactor,
                      AttentionFactors,
                      StepFactors,
                      ExchangeFactors,
                      GatherFactors,
                      LaunchFactors,
                      SamplerConfig {
  [[nodiscard]] bool operator==(const TrainingCase&) const = default;

  [[nodiscard]] ModelConfig model() const;
  // precision.communication follows comm_dtype.
  [[nodiscard]] OpsConfig ops_config() const;
  [[nodiscard]] AdamWConfig adamw() const;
  [[nodiscard]] StrategyConfig strategy_config() const;
  [[nodiscard]] bool exchanges() const { return strategy != Strategy::none; }
  // Whether NCCL should use symmetric windows on one node. Collectives on windows occupy fewer
  // multiprocessors, which helps concurrent products. Without concurrent products, all_reduces of
  // 100 MB and more are faster from plain buffers (src/parallel/NOTES.md).
  [[nodiscard]] bool gains_from_windows() const;
  // Whether gradients share memory (GradientWindow): each is consumed within backward before
  // another overwrites it. With --dump and with AdamW in --verify the caller keeps all gradients
  // regardless.
  [[nodiscard]] bool recycles_gradients() const {
    const bool kept_whole =
        exchanges() && strategy != Strategy::zero2 && strategy != Strategy::fsdp;
    return mode == Mode::train_step && optimizer == OptimizerOrder::in_backward && !kept_whole &&
           (exchanges() || comm_dtype == GradientDtype::fp32);
  }
  [[nodiscard]] StrategyShape strategy_shape() const;
  // For the rank with the largest shard.
  [[nodiscard]] StepShape step_shape() const;
  // Rows [first, first + count) of the global batch.
  [[nodiscard]] Batch rows(std::int64_t first, std::int64_t count) const;
};

[[nodiscard]] Factors<TrainingCase> training_factors(TrainingKind kind);
[[nodiscard]] TrainingCase training_defaults(TrainingKind kind);
// Called after parsing. Makes the size custom if the options `dimensions` are given. Throws
// UsageError for some of them only, for --size custom without them, and for another --size with
// them.
void read_custom_size(const OptionParser& p, FactorOptions<TrainingCase>& factors,
                      const std::vector<std::string>& dimensions);

}  // namespace paceline
