#pragma once
// What is planned: a model, a layout over ranks and the machine.
//
// A layout has X data-parallel ranks (replicas, or ZeRO's shards), each of them a group of Y
// tensor-parallel ones, which hold equal parts of every matrix and, by sequence parallelism, of
// every activation (Korthikanti et al., arXiv:2205.05198): whatever a data-parallel rank would hold
// is divided by Y. The vectors of norms, which are not, are less than 0.1% of a model.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "experiments/plan/hardware.h"
#include "experiments/plan/work.h"
#include "experiments/training/training_case.h"

namespace paceline {

// transformer: the program's model. two_matrix: the course's XXL, blocks of two matrices [D, F] and
// [F, D] and nothing else; what is kept for backward is the input of each matrix.
enum class BlockKind : std::uint8_t { transformer, two_matrix };
constexpr auto names_of(BlockKind) { return names("transformer", "two-matrix"); }

// Sublayers of a block that end in a sum over tensor-parallel ranks.
constexpr double summed_sublayers(BlockKind blocks) {
  return blocks == BlockKind::transformer ? 2 : 1;
}
// Collectives of a sublayer's activations between tensor-parallel ranks, with sequence parallelism:
// in forward a gather of the input and a reduce_scatter of the result; in backward the same of
// their gradients and the gather of the input once more, as a rank keeps its part of it alone.
constexpr double forward_tensor_collectives = 2;
constexpr double backward_tensor_collectives = 3;

// Axes of a device mesh, each with links of its own, that a collective uses at once.
struct MeshAxes {
  int data = 1;
  int tensor = 1;
};

// A collective operation beside all_reduce, which has the hardware's bandwidth.
struct MeasuredOp {
  double latency_s = 0;        // between two ranks
  double bandwidth_ratio = 1;  // of bytes that a rank sends, to all_reduce's
};

struct PlanCase {
  TrainingCase step;  // of a group of Y ranks; step.ranks is X
  BlockKind blocks = BlockKind::transformer;
  int tensor = 1;  // Y
  MeshAxes axes;
  Hardware hardware;
  double memory_bytes = 0;  // of a device
  std::string memory_text;  // as --memory gives it; empty: the table's, which leaves GB or GiB open
  WorkRates rates;          // what a device reaches
  double correction = 1;    // of the times by these rates
  double contention = 0;    // of a collective's own time, what it costs the work beside it
  double latency_s = 0;     // of a collective between two ranks
  std::map<std::string, MeasuredOp, std::less<>> measured_ops;  // by name

  [[nodiscard]] int data_ranks() const { return static_cast<int>(step.ranks); }
  [[nodiscard]] std::int64_t ranks() const { return step.ranks * tensor; }
  // Of a group of Y ranks, and of all, in one step.
  [[nodiscard]] double group_tokens() const;
  [[nodiscard]] double tokens() const { return group_tokens() * data_ranks(); }

  [[nodiscard]] double parameters() const;
  // Of the products of one token in forward.
  [[nodiscard]] double forward_flops_per_token() const;
  // Of the products of a whole step of all ranks, recomputation included.
  [[nodiscard]] double step_flops() const;
  // Of a rank's step; of two-matrix blocks products alone count.
  [[nodiscard]] Work work() const;
  // Where a data-parallel rank's parameters lie.
  [[nodiscard]] StrategyShape strategy_shape() const;
  // As all_reduce where the operation itself was not measured.
  [[nodiscard]] MeasuredOp measured(std::string_view op) const;
  // Of a collective between data-parallel ranks, beside those of the other tensor-parallel ranks.
  [[nodiscard]] double data_bandwidth_bytes_per_s() const;
  [[nodiscard]] double tensor_bandwidth_bytes_per_s() const;
};

// Throws UsageError naming the option for a model that cannot be or does not divide by Y.
void check_plan(const PlanCase& plan);

}  // namespace paceline
