#include "parallel/gradient_exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/communicator.h"
#include "core/error.h"

namespace paceline {

namespace {

std::vector<GradientRange> one_per_parameter(const std::vector<ParameterEntry>& entries) {
  std::vector<GradientRange> ranges;
  for (ParameterId id = 0; id < entries.size(); ++id) {
    for (const ParameterView& view : entries[id].views) {
      ranges.push_back({{entries[id].offset + view.offset, view.shape.numel()}, id, id, view.name});
    }
  }
  return ranges;
}

// Entries first to last and the padding between them.
GradientRange range_of(const std::vector<ParameterEntry>& entries, ParameterId first,
                       ParameterId last) {
  const std::int64_t offset = entries[first].offset;
  const std::int64_t end = entries[last].offset + entries[last].shape.numel();
  const std::string& name = entries[first].views.front().name;
  return {{offset, end - offset},
          first,
          last,
          last == first ? name : fmt::format("{} + {}", name, last - first)};
}

std::vector<GradientRange> buckets(const std::vector<ParameterEntry>& entries, double bucket_bytes,
                                   std::size_t element_bytes) {
  const auto max_elements = static_cast<std::int64_t>(
      std::min(bucket_bytes / static_cast<double>(element_bytes), 0x1p62));
  std::vector<GradientRange> ranges;
  ParameterId first = 0;
  std::int64_t filled = 0;
  for (ParameterId id = 0; id < entries.size(); ++id) {
    const std::int64_t length = entries[id].shape.numel();
    const bool is_last = id + 1 == entries.size();
    const bool other_kind = entries[id].full_precision != entries[first].full_precision;
    if (id > first && (is_last || other_kind || filled + length > max_elements)) {
      ranges.push_back(range_of(entries, first, id - 1));
      first = id;
      filled = 0;
    }
    filled += length;
  }
  ranges.push_back(range_of(entries, first, entries.size() - 1));
  return ranges;
}

}  // namespace

std::vector<GradientRange> gradient_ranges(const std::vector<ParameterEntry>& entries,
                                           Strategy strategy, double bucket_bytes,
                                           std::size_t element_bytes) {
  if (entries.empty()) return {};
  switch (strategy) {
    case Strategy::none: return {};
    case Strategy::naive:
    case Strategy::overlap: return one_per_parameter(entries);
    case Strategy::flat: return {range_of(entries, 0, entries.size() - 1)};
    case Strategy::bucketed:
    case Strategy::owner_broadcast:
    case Strategy::zero1:
    case Strategy::zero2:
    case Strategy::fsdp: break;
  }
  return buckets(entries, bucket_bytes, element_bytes);
}

std::vector<ParameterId> group_ends(const std::vector<ParameterEntry>& entries, Strategy strategy,
                                    double bucket_bytes, std::size_t element_bytes) {
  std::vector<ParameterId> ends;
  if (strategy != Strategy::fsdp) {
    for (const GradientRange& bucket : buckets(entries, bucket_bytes, element_bytes)) {
      ends.push_back(bucket.last);
    }
    return ends;
  }
  for (ParameterId id = 0; id < entries.size(); ++id) {
    if (id + 1 == entries.size() || entries[id + 1].unit != entries[id].unit) ends.push_back(id);
  }
  return ends;
}

std::vector<GradientRange> group_ranges(const ParameterStore& store, Strategy strategy) {
  const std::vector<ParameterEntry>& entries = store.entries();
  std::vector<GradientRange> ranges;
  ParameterId first = 0;
  for (const StoreRange& group : store.groups()) {
    ParameterId last = first;
    while (last + 1 < entries.size() && entries[last + 1].offset < group.end()) ++last;
    ranges.push_back(range_of(entries, first, last));
    ranges.back().length = group.length;
    if (strategy == Strategy::fsdp) ranges.back().name = entries[first].unit;
    first = last + 1;
  }
  return ranges;
}

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
      ranges_(std::move(ranges)) {}

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
