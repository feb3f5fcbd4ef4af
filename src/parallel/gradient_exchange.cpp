#include "parallel/gradient_exchange.h"

#include "core/error.h"
#include "core/ring.h"

namespace paceline {

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
      overlaps_(config.strategy != Strategy::naive && config.strategy != Strategy::flat),
      registered_(config.registered),
      ranges_(std::move(ranges)) {
  if (ranges_.empty())
    throw InternalError("a strategy without exchanges needs no GradientExchange");
}

void GradientExchange::register_memory() {
  register_with(communicator_, store_.parameter_arrays());
  register_with(communicator_, store_.gradient_arrays());
}

void GradientExchange::register_with(Communicator& communicator,
                                     const std::vector<Tensor>& whole_arrays) {
  if (!registered_) return;
  for (const Tensor& array : whole_arrays) {
    if (!array.empty()) registrations_.push_back(communicator.register_memory(array));
  }
}

void GradientExchange::start() {
  communication_follows_compute();
  communicator_.broadcast(store_.parameters(), 0);
  communicator_.stream().synchronize();
  store_.refresh_copy(ops_);
}

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
  communicator_.stream().follow(ops_.device().compute_stream());
}

void GradientExchange::exchange(Stream& stream, std::string_view op, const std::string& what,
                                const Tensor& x, const std::function<void()>& call) {
  Exchange e{.op = op,
             .what = what,
             .message_bytes = x.bytes(),
             .sent_bytes = ring_share(op, communicator_.size()) * static_cast<double>(x.bytes()),
             .stream = &stream == &communicator_.stream() ? "communication" : "gathers",
             .begin = stream.record(),
             .end = nullptr};
  call();
  e.end = stream.record();
  exchanges_.push_back(std::move(e));
}

void GradientExchange::reduce(const GradientRange& range, const Tensor& gradients) {
  exchange(communicator_.stream(), "all_reduce", range.name, gradients,
           [&] { communicator_.all_reduce(gradients, gradients, ReduceOp::sum); });
}

void GradientExchange::send(const GradientRange& range) {
  store_.round_gradients(ops_, range);
  communication_follows_compute();
  reduce(range, store_.written_gradients(range));
  final_after(range, communicator_.stream());
  ops_.run_beside_collectives(overlaps_);
  ++reduced_;
}

void GradientExchange::finish_backward() {
  if (!overlaps_) {
    for (const GradientRange& range : ranges_) send(range);
  }
  if (reduced_ != ranges_.size()) {
    throw InternalError("a gradient did not become ready exactly once");
  }
  ops_.run_beside_collectives(false);
  ops_.device().compute_stream().follow(communicator_.stream());
}

void GradientExchange::wait_for(const EventPtr& end, const std::string& what) {
  Stream& compute = ops_.device().compute_stream();
  EventPtr from = compute.record();
  compute.wait(end);
  waits_.push_back({what, std::move(from), compute.record()});
}

}  // namespace paceline
