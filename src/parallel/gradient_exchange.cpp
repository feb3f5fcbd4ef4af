#include "parallel/gradient_exchange.h"

#include "core/error.h"

namespace paceline {

namespace {

// Whether exchanges begin while backward still runs.
bool overlaps(Strategy strategy) {
  switch (strategy) {
    case Strategy::none:
    case Strategy::naive:
    case Strategy::flat: return false;
    case Strategy::overlap:
    case Strategy::bucketed:
    case Strategy::owner_broadcast:
    case Strategy::zero1: return true;
  }
  throw InternalError("a strategy that GradientExchange does not know");
}

// What a rank sends of a message of one byte, in a ring of n ranks.
double sent_of_each_byte(std::string_view op, int n) {
  const double ring = static_cast<double>(n - 1) / n;
  return op == "all_reduce" ? 2 * ring : ring;
}

}  // namespace

GradientExchange::GradientExchange(ParameterStore& store, Ops& ops, Communicator& communicator,
                                   const StrategyConfig& config)
    : GradientExchange(store, ops, communicator, config,
                       gradient_ranges(store.entries(), config.strategy, config.bucket_bytes,
                                       size_of(ops.precision().communication))) {}

GradientExchange::GradientExchange(ParameterStore& store, Ops& ops, Communicator& communicator,
                                   const StrategyConfig& config, std::vector<GradientRange> ranges)
    : ParallelStrategy(store),
      ops_(ops),
      communicator_(communicator),
      overlaps_(overlaps(config.strategy)),
      registered_(config.registered),
      ranges_(std::move(ranges)) {
  if (ranges_.empty())
    throw InternalError("a strategy without exchanges needs no GradientExchange");
}

void GradientExchange::register_memory() {
  if (!registered_) return;
  for (const StoreArray& array : store_.flat_arrays()) {
    registrations_.push_back(communicator_.register_memory(array.values));
  }
}

void GradientExchange::start() { broadcast_parameters(store_, ops_, communicator_); }

void GradientExchange::begin_step() {
  exchanges_.clear();
  waits_.clear();
  awaited_.clear();
  reduced_ = 0;
  for (const GradientRange& range : ranges_) awaited_.push_back(range.last - range.first + 1);
}

void GradientExchange::gradient_ready(ParameterId id) {
  if (!overlaps_) return;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const GradientRange& range = ranges_[i];
    if (id < range.first || id > range.last) continue;
    if (--awaited_[i] == 0) send(range);
  }
}

void GradientExchange::communication_follows_compute() {
  communicator_.stream().wait(ops_.device().compute_stream().record());
}

void GradientExchange::exchange(std::string_view op, const std::string& what, const Tensor& x,
                                const std::function<void()>& call) {
  Stream& stream = communicator_.stream();
  Exchange e{
      .op = op,
      .what = what,
      .message_bytes = x.bytes(),
      .sent_bytes = sent_of_each_byte(op, communicator_.size()) * static_cast<double>(x.bytes()),
      .begin = stream.record(),
      .end = nullptr};
  call();
  e.end = stream.record();
  exchanges_.push_back(std::move(e));
}

void GradientExchange::reduce(const GradientRange& range, const Tensor& gradients) {
  exchange("all_reduce", range.name, gradients,
           [&] { communicator_.all_reduce(gradients, gradients, ReduceOp::sum); });
}

void GradientExchange::send(const GradientRange& range) {
  const StoreRange part{range.offset, range.length};
  store_.round_gradients(ops_, part);
  communication_follows_compute();
  reduce(range, part.of(store_.gradients()));
  ops_.run_beside_collectives(overlaps_);
  ++reduced_;
}

void GradientExchange::finish_backward() {
  if (!overlaps_) {
    for (const GradientRange& range : ranges_) send(range);
  }
  if (reduced_ != ranges_.size()) {
    throw InternalError("a gradient was never ready, or more than once");
  }
  ops_.run_beside_collectives(false);
  ops_.device().compute_stream().wait(exchanges_.back().end);
}

void GradientExchange::wait_for(const EventPtr& end) {
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
