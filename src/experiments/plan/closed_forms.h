#pragma once
// The closed forms of a plan: memory, the smallest compute-bound batch, and the time of a step.

#include <array>
#include <cmath>

#include "experiments/plan/plan_case.h"

namespace paceline {

// Bytes per parameter of the model's state in float32: weights, gradients, Adam's m and v.
inline constexpr double weight_bytes = 4;
inline constexpr double optimizer_bytes = 8;
inline constexpr double state_bytes = weight_bytes + weight_bytes + optimizer_bytes;

// Bytes of activations per token that two-matrix blocks keep for backward: L (D + F) elements. With
// recomputation of groups of K blocks, ceil(L / K) D + K (D + F): the inputs of all groups, and all
// activations of one group.
[[nodiscard]] double two_matrix_saved_bytes_per_token(const TrainingCase& c);

// The parts of a device's memory, by their names in JSON and in text.
struct MemoryPart {
  const char* key;
  const char* what;
  double MemoryForm::*bytes;
};
inline constexpr std::array memory_parts = {
    MemoryPart{"parameters_bytes", "parameters and copies", &MemoryForm::parameters},
    MemoryPart{"gathered_bytes", "gathered parameters", &MemoryForm::gathered},
    MemoryPart{"gradients_bytes", "gradients", &MemoryForm::gradients},
    MemoryPart{"optimizer_bytes", "optimizer state", &MemoryForm::optimizer},
    MemoryPart{"activations_bytes", "activations", &MemoryForm::activations},
    MemoryPart{"transient_bytes", "transient at the peak", &MemoryForm::transient}};

// Bytes by kind on the device with the largest shard.
[[nodiscard]] MemoryForm device_memory(const PlanCase& plan);

// The smallest n for which the state and a part of the activations, sharded over n devices, and the
// rest of the activations, which each of them has, fit: (16 P + S A) / n + (1 - S) A <=
// device_bytes; infinite if there is none. Without activations: the devices needed for the state.
[[nodiscard]] double devices_needed(double state, double device_bytes, double activations = 0,
                                    double sharded = 0);

// The K with the lowest peak when every K blocks are recomputed, and that peak.
struct BestRecompute {
  int blocks = 0;
  double peak_bytes = 0;
};
[[nodiscard]] BestRecompute best_recompute(const PlanCase& plan);

// The smallest batch for which a layout is bound by compute and not by communication.
//
// In a pass over B tokens (of all ranks), a device takes B c seconds for matrix products, g seconds
// to exchange parameters or gradients, and B t seconds to exchange tensor-parallel activations:
//   c = f / (X Y C)   f: FLOPs per token
//   g = V / (W M_X)   V: bytes that a device sends in the collectives of parameters or gradients
//   t = v / (W M_Y)   v: bytes per token that a device sends in tensor-parallel collectives
// X, Y: data-parallel and tensor-parallel ranks; C: FLOP/s of a device; W: bytes/s of a link;
// M_X, M_Y: mesh axes of the data-parallel and of the tensor-parallel collectives.
// Overlapped: all three run concurrently; compute-bound if B >= g / c and c > t. Serial: the two
// kinds of collectives run one after the other, concurrently with the products; B >= g / (c - t).
// Reference: Austin et al., How to Scale Your Model (2025), "Training".
struct ComputeBound {
  double flops_per_token = 0;         // f
  double exchanged_bytes = 0;         // V
  double tensor_bytes_per_token = 0;  // v
  double compute_s_per_token = 0;     // c
  double exchange_s = 0;              // g
  double tensor_s_per_token = 0;      // t
  // The smallest d_ff with c > t. For two-matrix blocks: n e / (4 p) x Y C / (W M_Y), with e bytes
  // per element.
  double tensor_least_d_ff = 0;
  double tensor_collectives = 0;  // n: tensor-parallel collectives per block
  double passes = 0;              // p: FLOPs over forward's; 1 in forward, 2 in backward

  [[nodiscard]] bool tensor_is_hidden() const { return compute_s_per_token > tensor_s_per_token; }
  // Smallest compute-bound batch in tokens; infinite if there is none.
  [[nodiscard]] double overlapped_tokens() const {
    return tensor_is_hidden() ? exchange_s / compute_s_per_token : HUGE_VAL;
  }
  [[nodiscard]] double serial_tokens() const {
    return tensor_is_hidden() ? exchange_s / (compute_s_per_token - tensor_s_per_token) : HUGE_VAL;
  }
};

// Whether a ring of n ranks is counted to send (n - 1) / n of the bytes, or all of them as in the
// course.
enum class RingFactor : std::uint8_t { left_out, counted };

// For the pass that overlaps the collectives: forward for fsdp, which gathers parameters; backward
// for other layouts, which exchange gradients.
[[nodiscard]] ComputeBound compute_bound(const PlanCase& plan, RingFactor ring);

// The time of a step: computation, exposed communication and contention.
//
//   products    FLOPs / peak; attention's at a separate rate (--rates)
//   traffic     bytes read and written / memory bandwidth: elementwise work and the optimizer
//   fixed       blocks x the size-independent time of a block (--rates)
//   tensor      tensor-parallel collectives, never overlapped: the next product waits for them
//   exchange    data-parallel collectives: calls x latency + bytes sent / bandwidth,
//               per operation if it was measured (--rates)
//   exposed     the part of the exchange that is not overlapped. naive and flat: all of it. Others:
//               the excess over the passes that overlap it, at least the last collective; plus
//               broadcasts of parameters after the update
//   contention  slowdown by overlapped collectives, as a fraction of their time (--rates)
//
// The latency of a collective of n ranks is ceil(log2 n) times that of two ranks (trees).
struct StepTime {
  double products_s = 0;
  double traffic_s = 0;
  double fixed_s = 0;
  double tensor_s = 0;
  double exchange_s = 0;
  double exchange_calls = 0;
  double exchange_bytes = 0;  // sent by a rank
  double exposed_s = 0;
  double contention_s = 0;

  [[nodiscard]] double compute_s() const { return products_s + traffic_s + fixed_s + tensor_s; }
  [[nodiscard]] double step_s() const { return compute_s() + exposed_s + contention_s; }
};

[[nodiscard]] StepTime step_time(const PlanCase& plan);

// The latency of a collective of `ranks` ranks.
[[nodiscard]] double collective_latency_s(const PlanCase& plan, int ranks);

}  // namespace paceline
