#pragma once
// The input of a plan: a model, a layout over ranks and the hardware.
//
// A layout has X data-parallel ranks (replicas, or ZeRO's shards). Each of them is a group of Y
// tensor-parallel ranks, which hold equal parts of every matrix and, by sequence parallelism, of
// every activation (Korthikanti et al., arXiv:2205.05198). So the memory of a data-parallel rank is
// divided by Y. The vectors of norms are not divided, but are less than 0.1% of a model.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/data_sheet.h"
#include "core/ops.h"
#include "experiments/training/rates_file.h"
#include "experiments/training/training_case.h"

namespace paceline {

inline constexpr double giga = 1e9;
inline constexpr double gibi = 0x1p30;

// Throws UsageError naming --peak-tflops if the sheet has no figure for this precision.
[[nodiscard]] double peak_flops_per_s(const DataSheet& device, const Precision& precision);
// The peak of attention's products, whose arithmetic may be another.
[[nodiscard]] double attention_flops_per_s(const DataSheet& device, const OpsConfig& config);
// The rate in bytes/s of a ring of `devices` devices along one mesh axis. `rings` such rings run
// concurrently; rings across nodes share the node's network cards.
[[nodiscard]] double bandwidth_bytes_per_s(const DataSheet& device, std::int64_t devices,
                                           int rings = 1);

// Whether `device`, the name of a GPU in a result file, is that of the name: "NVIDIA H200" is the
// data sheets' h200.
[[nodiscard]] bool is_device(std::string_view device, std::string_view name);

// The devices of a TOML file (empty: no file), then those of the data sheets that suffice for a
// plan and that the file does not replace. Throws UsageError for a missing key, a wrong type or a
// number out of range.
[[nodiscard]] std::vector<DataSheet> known_hardware(const std::string& file = {});

// transformer: the program's model. two_matrix: the course's XXL model, whose blocks are two
// matrices [D, F] and [F, D] only; the input of each matrix is kept for backward.
enum class BlockKind : std::uint8_t { transformer, two_matrix };
constexpr auto names_of(BlockKind) { return names("transformer", "two-matrix"); }

// Sublayers per block whose result is summed over tensor-parallel ranks.
constexpr double summed_sublayers(BlockKind kind) { return kind == BlockKind::transformer ? 2 : 1; }
// Tensor-parallel collectives per sublayer, with sequence parallelism. Forward: an all_gather of
// the input and a reduce_scatter of the result. Backward: both for the gradients, and another
// all_gather of the input, of which a rank keeps only its part.
constexpr double forward_tensor_collectives = 2;
constexpr double backward_tensor_collectives = 3;

// The number of mesh axes, each with its own links, that a collective uses concurrently.
struct MeshAxes {
  int data = 1;
  int tensor = 1;
};

// Fitted latency and bandwidth of a collective operation, relative to all_reduce, which has the
// hardware's bandwidth.
struct MeasuredOp {
  double latency_s = 0;        // between two ranks
  double bandwidth_ratio = 1;  // bytes/s sent by a rank, over those of all_reduce
};

struct PlanCase {
  TrainingCase step;  // what a group of Y ranks computes; step.ranks is X
  BlockKind block_kind = BlockKind::transformer;
  int tensor = 1;  // Y
  MeshAxes axes;
  DataSheet hardware;
  double memory_bytes = 0;  // of a device
  std::string memory_text;  // --memory as given; empty: the table's, which may mean GB or GiB
  double sharded_activations = 0;  // fraction, of --sharded-activations
  WorkRates rates;                 // that a device reaches
  double correction = 1;           // factor on the times that follow from `rates`
  double contention = 0;  // slowdown of overlapped work, as a fraction of the collective's time
  double latency_s = 0;   // of a collective between two ranks
  std::map<std::string, MeasuredOp, std::less<>> measured_ops;  // by name of the operation
  std::string rates_file;  // with the fit of all_reduce; empty: latency_s is that of --latency
  double run_tokens = 0;   // of the training run of --ask run

  [[nodiscard]] int data_ranks() const { return static_cast<int>(step.ranks); }
  [[nodiscard]] std::int64_t ranks() const { return step.ranks * tensor; }
  // Tokens per step: of a group of Y ranks, and of all ranks.
  [[nodiscard]] double group_tokens() const {
    return static_cast<double>(step.batch_size * step.context);
  }
  [[nodiscard]] double tokens() const { return group_tokens() * data_ranks(); }

  [[nodiscard]] double parameters() const {
    if (block_kind == BlockKind::transformer) return static_cast<double>(step.model().parameters());
    return 2.0 * static_cast<double>(step.layers * step.d_model * step.d_ff);
  }
  // Matrix-product FLOPs of forward.
  [[nodiscard]] double forward_flops_per_token() const;
  // Matrix-product FLOPs of a step on all ranks, recomputation included.
  [[nodiscard]] double step_flops() const;
  // The FLOPs of all products with weights over their time.
  [[nodiscard]] double weight_flops_per_s() const;
  // The work of a rank's step; for two-matrix blocks FLOPs only.
  [[nodiscard]] Work work() const;
  // The layout of a data-parallel rank's parameters.
  [[nodiscard]] StrategyShape strategy_shape() const;
  // The fit of an operation; if it was not measured, that of all_reduce.
  [[nodiscard]] MeasuredOp measured(std::string_view op) const {
    const auto found = measured_ops.find(op);
    return found == measured_ops.end() ? MeasuredOp{.latency_s = latency_s} : found->second;
  }
  // Whether `tensor_ranks` tensor-parallel ranks could hold equal parts of every matrix.
  [[nodiscard]] bool divides_over(std::int64_t tensor_ranks) const {
    return step.d_model % tensor_ranks == 0 && step.d_ff % tensor_ranks == 0 &&
           (block_kind == BlockKind::two_matrix || step.heads % tensor_ranks == 0);
  }
  // Of a data-parallel collective, while the other tensor-parallel ranks run theirs.
  [[nodiscard]] double data_bandwidth_bytes_per_s() const {
    return bandwidth_bytes_per_s(hardware, ranks(), tensor) * axes.data;
  }
  [[nodiscard]] double tensor_bandwidth_bytes_per_s() const {
    return bandwidth_bytes_per_s(hardware, tensor) * axes.tensor;
  }
};

// Throws UsageError naming the option if the model is invalid or not divisible by Y.
void check_plan(const PlanCase& plan);

// The steps that share rates: device kind, precision, attention kind and execution.
[[nodiscard]] std::string group_of(const PlanCase& plan);
[[nodiscard]] std::string model_text(const PlanCase& plan);

// The plan with what --rates gives: the rates, latencies and bandwidths of the file, where it has
// any. Rates are those of the planned device, or of another device of its kind. Links are those of
// the plan's number of ranks, or the nearest, and of the dtype that it exchanges, or another.
[[nodiscard]] PlanCase calibrated(const PlanCase& plan, const RatesFile& file);

// What no measurement covers: "8192 tokens a rank, measured 128 to 1024".
[[nodiscard]] std::vector<std::string> extrapolations(const PlanCase& plan, const RatesFile& file);

}  // namespace paceline
