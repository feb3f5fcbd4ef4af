#include "parallel/gradient_sync.h"

#include "core/error.h"

namespace paceline {

namespace {

// Whether exchanges begin while backward still runs.
bool overlaps(SyncStrategy strategy) {
  switch (strategy) {
    case SyncStrategy::none:
    case SyncStrategy::naive:
    case SyncStrategy::flat: return false;
    case SyncStrategy::overlap:
    case SyncStrategy::bucketed: return true;
  }
  throw InternalError("a strategy that GradientSync does not know");
}

// What a rank sends of a message of one byte, in a ring of n ranks.
double sent_of_each_byte(std::string_view op, int n) {
  const double ring = static_cast<double>(n - 1) / n;
  return op == "all_reduce" ? 2 * ring : ring;
}

}  // namespace

GradientSync::GradientSync(ParameterStore& store, Ops& ops, Communicator& communicator,
                           const SyncConfig& config)
    : GradientSync(store, ops, communicator, config,
                   gradient_ranges(store.entries(), config.strategy, config.bucket_bytes,
                                   size_of(ops.precision().communication))) {}

GradientSync::GradientSync(ParameterStore& store, Ops& ops, Communicator& communicator,
                           const SyncConfig& config, std::vector<GradientRange> ranges)
    : store_(store),
      ops_(ops),
      communicator_(communicator),
      overlaps_(overlaps(config.strategy)),
      registered_(config.registered),
      ranges_(std::move(ranges)) {
  if (ranges_.empty()) throw InternalError("a strategy without exchanges needs no GradientSync");
}

void GradientSync::start() {
  if (registered_) {
    for (const StoreArray& array : store_.flat_arrays()) {
      registrations_.push_back(communicator_.register_memory(array.values));
    }
  }
  broadcast_parameters(store_, ops_, communicator_);
}

void GradientSync::begin_step() {
  exchanges_.clear();
  waits_.clear();
  awaited_.clear();
  reduced_ = 0;
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

void GradientSync::communication_follows_compute() {
  communicator_.stream().wait(ops_.device().compute_stream().record());
}

void GradientSync::exchange(std::string_view op, const std::string& what, const Tensor& x,
                            const std::function<void()>& call) {
  Stream& stream = communicator_.stream();
  Exchange e{.op = op,
             .what = what,
             .bytes = x.bytes(),
             .sent = sent_of_each_byte(op, communicator_.size()) * static_cast<double>(x.bytes()),
             .begin = stream.record(),
             .end = nullptr};
  call();
  e.end = stream.record();
  exchanges_.push_back(std::move(e));
}

void GradientSync::reduce(const GradientRange& range, const Tensor& gradients) {
  exchange("all_reduce", range.name, gradients,
           [&] { communicator_.all_reduce(gradients, gradients, ReduceOp::sum); });
}

void GradientSync::send(const GradientRange& range) {
  const StoreRange part{range.offset, range.length};
  store_.round_gradients(ops_, part);
  communication_follows_compute();
  reduce(range, part.of(store_.gradients()));
  ops_.run_beside_collectives(overlaps_);
  ++reduced_;
}

void GradientSync::finish() {
  if (!overlaps_) {
    for (const GradientRange& range : ranges_) send(range);
  }
  if (reduced_ != ranges_.size()) {
    throw InternalError("a gradient was never ready, or more than once");
  }
  ops_.run_beside_collectives(false);
  ops_.device().compute_stream().wait(exchanges_.back().end);
}

void GradientSync::wait_for(const EventPtr& end) {
  Stream& compute = ops_.device().compute_stream();
  EventPtr from = compute.record();
  compute.wait(end);
  waits_.emplace_back(std::move(from), compute.record());
}

void broadcast_parameters(const ParameterStore& store, Ops& ops, Communicator& communicator) {
  Stream& stream = communicator.stream();
  stream.wait(ops.device().compute_stream().record());
  communicator.broadcast(store.parameters(), 0);
  stream.synchronize();
  store.refresh_copy(ops);
}

}  // namespace paceline
