#include "parallel/gradient_sync.h"

#include "core/error.h"

namespace paceline {

GradientSync::GradientSync(ParameterStore& store, Ops& ops, Communicator& communicator,
                           const SyncConfig& config)
    : store_(store),
      ops_(ops),
      communicator_(communicator),
      overlaps_(config.strategy == SyncStrategy::overlap ||
                config.strategy == SyncStrategy::bucketed),
      ranges_(gradient_ranges(
          store.entries(), config.strategy, config.bucket_bytes,
          config.half ? size_of(Dtype::bf16) : size_of(ops.precision().parameters))) {
  if (ranges_.empty()) throw InternalError("a strategy without exchanges needs no GradientSync");
  if (config.half) {
    const Scope scope(ops.device().scopes(), "gradients in bfloat16");
    half_ = ops.device().allocate({store.size()}, Dtype::bf16, MemoryKind::communication);
  }
}

void GradientSync::begin_step() {
  exchanges_.clear();
  awaited_.clear();
  for (const GradientRange& range : ranges_) awaited_.push_back(range.last - range.first + 1);
}

void GradientSync::ready(ParameterId parameter) {
  if (!overlaps_) return;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const GradientRange& range = ranges_[i];
    if (parameter < range.first || parameter > range.last) continue;
    if (--awaited_[i] == 0) send(range);
  }
}

Tensor GradientSync::gradients_of(const GradientRange& range) const {
  return store_.range().gradients.slice(range.offset, {range.length});
}

Tensor GradientSync::sent_part(const GradientRange& range) const {
  return half_.empty() ? gradients_of(range) : half_.tensor().slice(range.offset, {range.length});
}

void GradientSync::send(const GradientRange& range) {
  const Tensor x = sent_part(range);
  if (!half_.empty()) ops_.cast(x, gradients_of(range));
  Stream& stream = communicator_.stream();
  stream.wait(ops_.device().compute_stream().record());
  Exchange exchange{.range = &range, .bytes = x.bytes(), .begin = stream.record(), .end = nullptr};
  communicator_.all_reduce(x, x, ReduceOp::avg);
  exchange.end = stream.record();
  exchanges_.push_back(std::move(exchange));
}

void GradientSync::finish() {
  if (!overlaps_) {
    for (const GradientRange& range : ranges_) send(range);
  }
  if (exchanges_.size() != ranges_.size()) {
    throw InternalError("a gradient was never ready, or more than once");
  }
  ops_.device().compute_stream().wait(exchanges_.back().end);
  if (half_.empty()) return;
  for (const GradientRange& range : ranges_) ops_.cast(gradients_of(range), sent_part(range));
}

void broadcast_parameters(const ParameterStore& store, Ops& ops, Communicator& communicator) {
  Stream& stream = communicator.stream();
  stream.wait(ops.device().compute_stream().record());
  communicator.broadcast(store.range().parameters, 0);
  stream.synchronize();
  store.refresh_copy(ops);
}

}  // namespace paceline
