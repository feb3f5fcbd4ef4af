#pragma once
// AttentionRun: one rank's inputs and the timed phases forward, backward and both, launched
// operation by operation or as CUDA graphs.

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "experiments/attention/attention_check.h"
#include "harness/cache_flush.h"
#include "harness/case_run.h"
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
               CacheState cache)
      : device_(device),
        shape_(shape),
        ops_(device.make_ops(config)),
        flush_(device, cache),
        base_bytes_(device.ledger().bytes()),
        qkv_(activation({shape.batch, shape.context, 3, shape.heads, shape.head_dim},
                        config.precision.compute)),
        d_o_(activation({shape.batch, shape.context, shape.heads * shape.head_dim},
                        config.precision.compute)) {}

  void load(const AttentionInputs& inputs) {
    put_floats(device_, qkv_, inputs.qkv);
    load_gradient(inputs.d_o);
  }
  void load_gradient(const std::vector<float>& d_o) { put_floats(device_, d_o_, d_o); }

  // Runs the phases untimed. Afterwards, all memory that a repetition allocates is reserved. Throws
  // OutOfMemory.
  [[nodiscard]] AttentionBytes rehearse() {
    MemoryLedger& ledger = device_.ledger();
    AttentionBytes bytes;
    const std::size_t inputs = ledger.bytes();
    forward();
    o_ = {};
    bytes.saved = ledger.bytes() - inputs + qkv_.tensor().bytes();
    release();
    const std::size_t workspace = ledger.bytes(MemoryKind::workspace);
    ledger.reset_peak();
    forward();
    bytes.before_backward = ledger.bytes() - base_bytes_;
    backward();
    bytes.peak = ledger.peak() - base_bytes_;
    bytes.workspace = ledger.peak(MemoryKind::workspace) - workspace;
    warm_up_allocator(device_, "a forward and backward", [this] { work(Phase::both); });
    release();
    return bytes;
  }
  [[nodiscard]] FlashPlan flash_plan() const { return ops_->flash_plan(shape_); }

  // Results of one forward and backward; flash's logsumexp is from a call of the primitive
  // Ops::flash_attention(). Throws OutOfMemory.
  [[nodiscard]] AttentionResults results() {
    forward();
    backward();
    AttentionResults results{
        .o = get_floats(device_, o_), .logsumexp = {}, .dqkv = get_floats(device_, dqkv_)};
    release();
    if (ops_->config().attention == AttentionKind::flash) {
      const Array o =
          activation({shape_.batch, shape_.context, shape_.heads, shape_.head_dim}, qkv_.dtype());
      const Array logsumexp =
          activation({shape_.batch, shape_.heads, shape_.context}, ops_->precision().statistics);
      const QkvHeads in(qkv_);
      ops_->flash_attention(
          Heads(o), logsumexp, in.q, in.k, in.v,
          {.scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim)), .causal = shape_.causal});
      results.logsumexp = get_floats(device_, logsumexp);
    }
    return results;
  }

  // Captures a graph per phase; later repetitions replay them. The device must be frozen. A graph's
  // memory may be reused by the next one, since graphs are replayed one after another. Only
  // backward's graph reads what forward's graph has kept; that memory is not released between them.
  void capture() {
    for (const Phase phase : {Phase::warm_up, Phase::forward, Phase::backward, Phase::both}) {
      if (phase == Phase::warm_up && flush_.is_cold()) continue;
      std::unique_ptr<Graph>& graph = graphs_.at(static_cast<std::size_t>(phase));
      graph = device_.capture(device_.compute_stream(), [this, phase] { work(phase); });
      graph->instantiate();
    }
    release();
  }

  // Seconds of forward, backward and both, each timed separately by events on the compute stream.
  // Without a flush the cache is warm: an untimed forward comes first. The host does not wait
  // between phases, so that the device never idles and the events time the device's work only.
  [[nodiscard]] PhaseSeconds repetition() {
    if (!flush_.is_cold()) enqueue(Phase::warm_up);
    const std::array phases = {timed(Phase::forward), timed(Phase::backward), timed(Phase::both)};
    device_.synchronize();
    release();
    PhaseSeconds seconds;
    for (const auto& [begin, end] : phases) seconds.push_back(end->seconds_since(*begin));
    return seconds;
  }

 private:
  // warm_up: an untimed forward.
  enum class Phase : std::uint8_t { forward, backward, both, warm_up };

  [[nodiscard]] Array activation(const Shape& shape, Dtype dtype) {
    const Scope scope(device_.scopes(), "operands");
    return device_.allocate(shape, dtype, MemoryKind::activation);
  }
  void forward() {
    release();
    const Scope scope(device_.scopes(), "forward");
    o_ = ops_->attention(saved_, qkv_, shape_);
  }
  void backward() {
    const Scope scope(device_.scopes(), "backward");
    dqkv_ = ops_->attention_backward(saved_, d_o_, shape_);
  }
  // Frees what the phases have kept.
  void release() {
    (void)saved_.take();
    o_ = {};
    dqkv_ = {};
  }
  // Launches the phase operation by operation.
  void work(Phase phase) {
    if (phase == Phase::forward) return forward();
    if (phase == Phase::backward) return backward();
    const Scope scope(device_.scopes(), phase == Phase::both ? "both" : "warm-up");
    forward();
    if (phase == Phase::both) backward();
  }
  // Replays the phase's graph, or launches it if none is captured.
  void enqueue(Phase phase) {
    const auto& graph = graphs_.at(static_cast<std::size_t>(phase));
    graph ? graph->launch() : work(phase);
  }
  [[nodiscard]] std::pair<EventPtr, EventPtr> timed(Phase phase) {
    flush_.enqueue();
    Stream& stream = device_.compute_stream();
    EventPtr begin = stream.record();
    enqueue(phase);
    return {std::move(begin), stream.record()};
  }

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
