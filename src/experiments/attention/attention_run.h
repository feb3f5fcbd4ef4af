#pragma once
// AttentionRun: one rank's attention as `attention` measures it: inputs in memory, forward,
// backward and both, launched one by one or as graphs.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "experiments/attention/attention_check.h"
#include "measure/sampler.h"

namespace paceline {

// Bytes, without what stands there before the inputs do (the buffer that flushes the cache, the
// matrix products' workspace).
struct AttentionBytes {
  std::size_t saved = 0;            // for backward, qkv included
  std::size_t before_backward = 0;  // with the result and its gradient
  std::size_t peak = 0;
  std::size_t workspace = 0;  // of it, the kernels' at most
};

class AttentionRun {
 public:
  // flush_bytes: written before each phase; 0: nothing is. Throws OutOfMemory.
  AttentionRun(Device& device, const OpsConfig& config, const AttentionShape& shape,
               std::int64_t flush_bytes);

  void load(const AttentionInputs& inputs);
  void load_gradient(const std::vector<float>& d_o);
  // Everything a repetition allocates is reserved after it. Throws OutOfMemory.
  [[nodiscard]] AttentionBytes rehearse();
  [[nodiscard]] FlashPlan flash_plan() const { return ops_->flash_plan(shape_); }
  // Of one forward and backward; flash's logsumexp by its primitive. Throws OutOfMemory.
  [[nodiscard]] AttentionResults results();
  // From now on phases are replays. The device is frozen.
  void capture();

  // forward, backward, both: each timed by itself, by events on the compute stream. What is not
  // flushed is warm: an untimed forward comes first.
  [[nodiscard]] PhaseSeconds repetition();

 private:
  // warm_up: a forward that is not timed.
  enum class Phase : std::uint8_t { forward, backward, both, warm_up };

  void forward();
  void backward();
  void release();             // what the phases have left
  void flush();               // the cache, if it is to be cold
  void work(Phase phase);     // operation by operation
  void enqueue(Phase phase);  // that, or its graph
  [[nodiscard]] std::pair<EventPtr, EventPtr> timed(Phase phase);

  Device& device_;
  AttentionShape shape_;
  std::unique_ptr<Ops> ops_;
  Array flush_;
  std::size_t base_bytes_;  // in use before the inputs
  Array qkv_;               // [B, T, 3, H, d]
  Array d_o_;               // [B, T, H d]
  Saved saved_;
  Array o_;                                       // [B, T, H d]
  Array dqkv_;                                    // [B, T, 3, H, d]
  std::array<std::unique_ptr<Graph>, 4> graphs_;  // by phase
};

}  // namespace paceline
