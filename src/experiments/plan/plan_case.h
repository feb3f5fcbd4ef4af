#pragma once
// The input of a plan: a model, a layout over ranks and the hardware.
//
// A layout has X data-parallel ranks (replicas, or ZeRO's shards). Each of them is a group of Y
// tensor-parallel ranks, which hold equal parts of every matrix and, by sequence parallelism, of
// every activation (Korthikanti et al., arXiv:2205.05198). So the memory of a data-parallel rank is
// divided by Y. The vectors of norms are not divided, but are less than 0.1% of a model.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "experiments/plan/hardware.h"
#include "experiments/training/training_case.h"
#include "experiments/training/rates_file.h"

namespace paceline {

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
  [[nodiscard]] double group_tokens() const;
  [[nodiscard]] double tokens() const { return group_tokens() * data_ranks(); }

  [[nodiscard]] double parameters() const;
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
  [[nodiscard]] MeasuredOp measured(std::string_view op) const;
  // Whether `tensor_ranks` tensor-parallel ranks could hold equal parts of every matrix.
  [[nodiscard]] bool divides_over(std::int64_t tensor_ranks) const;
  // Of a data-parallel collective, while the other tensor-parallel ranks run theirs.
  [[nodiscard]] double data_bandwidth_bytes_per_s() const;
  [[nodiscard]] double tensor_bandwidth_bytes_per_s() const;
};

// Throws UsageError naming the option if the model is invalid or not divisible by Y.
void check_plan(const PlanCase& plan);

}  // namespace paceline
