#include "experiments/attention/attention_run.h"

#include <cmath>
#include <utility>

#include "harness/case_run.h"

namespace paceline {

namespace {

Array activation(Device& device, const Shape& shape, Dtype dtype) {
  const Scope scope(device.scopes(), "operands");
  return device.allocate(shape, dtype, MemoryKind::activation);
}

}  // namespace

AttentionRun::AttentionRun(Device& device, const OpsConfig& config, const AttentionShape& shape,
                           CacheState cache)
    : device_(device),
      shape_(shape),
      ops_(device.make_ops(config)),
      flush_(device, cache),
      base_bytes_(device.ledger().bytes()),
      qkv_(activation(device, {shape.batch, shape.context, 3, shape.heads, shape.head_dim},
                      config.precision.compute)),
      d_o_(activation(device, {shape.batch, shape.context, shape.heads * shape.head_dim},
                      config.precision.compute)) {}

void AttentionRun::load(const AttentionInputs& inputs) {
  put_floats(device_, qkv_, inputs.qkv);
  put_floats(device_, d_o_, inputs.d_o);
}

void AttentionRun::load_gradient(const std::vector<float>& d_o) { put_floats(device_, d_o_, d_o); }

void AttentionRun::forward() {
  release();
  const Scope scope(device_.scopes(), "forward");
  o_ = ops_->attention(saved_, qkv_, shape_);
}

void AttentionRun::backward() {
  const Scope scope(device_.scopes(), "backward");
  dqkv_ = ops_->attention_backward(saved_, d_o_, shape_);
}

void AttentionRun::release() {
  (void)saved_.take();
  o_ = {};
  dqkv_ = {};
}

AttentionBytes AttentionRun::rehearse() {
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

AttentionResults AttentionRun::results() {
  forward();
  backward();
  AttentionResults results{
      .o = get_floats(device_, o_), .logsumexp = {}, .dqkv = get_floats(device_, dqkv_)};
  release();
  if (ops_->config().attention == AttentionKind::flash) {
    const Array o = activation(
        device_, {shape_.batch, shape_.context, shape_.heads, shape_.head_dim}, qkv_.dtype());
    const Array logsumexp = activation(device_, {shape_.batch, shape_.heads, shape_.context},
                                       ops_->precision().statistics);
    const QkvHeads in(qkv_);
    ops_->flash_attention(
        Heads(o), logsumexp, in.q, in.k, in.v,
        {.scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim)), .causal = shape_.causal});
    results.logsumexp = get_floats(device_, logsumexp);
  }
  return results;
}

// A graph's memory may be reused by the next one, since graphs are replayed one after another. Only
// backward's graph reads what forward's graph has kept; that memory is not released between them.
void AttentionRun::capture() {
  for (const Phase phase : {Phase::warm_up, Phase::forward, Phase::backward, Phase::both}) {
    if (phase == Phase::warm_up && flush_.is_cold()) continue;
    std::unique_ptr<Graph>& graph = graphs_.at(static_cast<std::size_t>(phase));
    graph = device_.capture(device_.compute_stream(), [this, phase] { work(phase); });
    graph->instantiate();
  }
  release();
}

void AttentionRun::work(Phase phase) {
  switch (phase) {
    case Phase::forward: forward(); break;
    case Phase::backward: backward(); break;
    case Phase::both: {
      const Scope scope(device_.scopes(), "both");
      forward();
      backward();
      break;
    }
    case Phase::warm_up: {
      const Scope scope(device_.scopes(), "warm-up");
      forward();
      break;
    }
  }
}

void AttentionRun::enqueue(Phase phase) {
  const auto& graph = graphs_.at(static_cast<std::size_t>(phase));
  graph ? graph->launch() : work(phase);
}

std::pair<EventPtr, EventPtr> AttentionRun::timed(Phase phase) {
  flush_.enqueue();
  Stream& stream = device_.compute_stream();
  EventPtr begin = stream.record();
  enqueue(phase);
  return {std::move(begin), stream.record()};
}

// The host does not wait between phases, so that the device never idles and the events time the
// device's work only.
PhaseSeconds AttentionRun::repetition() {
  if (!flush_.is_cold()) enqueue(Phase::warm_up);
  const std::array phases = {timed(Phase::forward), timed(Phase::backward), timed(Phase::both)};
  device_.synchronize();
  release();
  PhaseSeconds seconds;
  for (const auto& [begin, end] : phases) seconds.push_back(end->seconds_since(*begin));
  return seconds;
}

}  // namespace paceline
