#pragma once
// AttentionRun: one rank's inputs and the timed phases forward, backward and both, launched
// operation by operation or as CUDA graphs.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "experiments/attention/attention_check.h"
#include "harness/cache_flush.h"
#include "measure/sampler.h"

namespace paceline {

// Bytes in use, not counting what is allocated before the inputs (the cache flush buffer and the
// GEMMs' workspace).
struct AttentionBytes {
  std::size_t saved = 0;            // kept for backward, qkv included
  std::size_t before_backward = 0;  // saved, the result and its gradient
  std::size_t peak = 0;
  std::size_t workspace = 0;  // peak of the kernels' workspace, which is part of `peak`
};

class AttentionRun {
 public:
  // cache: its state before each phase. Throws OutOfMemory.
  AttentionRun(Device& device, const OpsConfig& config, const AttentionShape& shape,
               CacheState cache);

  void load(const AttentionInputs& inputs);
  void load_gradient(const std::vector<float>& d_o);
  // Runs the phases untimed. Afterwards, all memory that a repetition allocates is reserved. Throws
  // OutOfMemory.
  [[nodiscard]] AttentionBytes rehearse();
  [[nodiscard]] FlashPlan flash_plan() const { return ops_->flash_plan(shape_); }
  // Results of one forward and backward; flash's logsumexp is from a call of the primitive
  // Ops::flash_attention(). Throws OutOfMemory.
  [[nodiscard]] AttentionResults results();
  // Captures a graph per phase; later repetitions replay them. The device must be frozen.
  void capture();

  // Seconds of forward, backward and both, each timed separately by events on the compute stream.
  // Without a flush the cache is warm: an untimed forward comes first.
  [[nodiscard]] PhaseSeconds repetition();

 private:
  // warm_up: an untimed forward.
  enum class Phase : std::uint8_t { forward, backward, both, warm_up };

  void forward();
  void backward();
  void release();             // frees what the phases have kept
  void work(Phase phase);     // launches the phase operation by operation
  void enqueue(Phase phase);  // replays the phase's graph, or work(phase) if none is captured
  [[nodiscard]] std::pair<EventPtr, EventPtr> timed(Phase phase);

  Device& device_;
  AttentionShape shape_;
  std::unique_ptr<Ops> ops_;
  CacheFlush flush_;
  std::size_t base_bytes_;  // in use before the inputs
  Array qkv_;               // [B, T, 3, H, d]
  Array d_o_;               // [B, T, H d]
  Saved saved_;
  Array o_;                                       // [B, T, H d]
  Array dqkv_;                                    // [B, T, 3, H, d]
  std::array<std::unique_ptr<Graph>, 4> graphs_;  // by phase
};

}  // namespace paceline
