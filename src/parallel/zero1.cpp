#include "parallel/zero1.h"

#include <utility>

#include "core/error.h"

namespace paceline {

Zero1::Zero1(ParameterStore& store, Ops& ops, Communicator& communicator,
             const StrategyConfig& config)
    : GradientExchange(
          store, ops, communicator, config,
          scatter_buckets(store, config.bucket_bytes, size_of(ops.precision().communication),
                          communicator.size())),
      gathered_(ranges().size()) {
  for (const GradientRange& range : ranges()) {
    if (range.length % (communicator.size() * ParameterStore::alignment) != 0) {
      throw InternalError("the store is laid out for another number of shards");
    }
  }
}

StoreRange Zero1::slice_of(const GradientRange& range) const {
  const std::int64_t length = range.length / communicator_.size();
  return {range.offset + communicator_.rank() * length, length};
}

Shard Zero1::shard() const {
  Shard shard;
  for (const GradientRange& range : ranges()) shard.ranges.push_back(slice_of(range));
  shard.agree = [this](const Tensor& found_inf) {
    Stream& stream = communicator_.stream();
    stream.wait(ops_.device().compute_stream().record());
    communicator_.all_reduce(found_inf, found_inf, ReduceOp::max);
    ops_.device().compute_stream().wait(stream.record());
  };
  return shard;
}

void Zero1::begin_step() {
  GradientExchange::begin_step();
  communication_follows_compute();
  for (std::size_t i = ranges().size(); i-- > 0;) {
    const GradientRange& range = ranges()[i];
    const Tensor& flat = read_by_forward(store_.entries()[range.last]);
    exchange("all_gather", range.name, range.of(flat),
             [&] { communicator_.all_gather(range.of(flat), slice_of(range).of(flat)); });
    gathered_[i] = exchanges().back().end;
  }
  ops_.run_beside_collectives(true);
}

Parameter Zero1::acquire(ParameterId id, Pass pass) {
  for (std::size_t i = 0; i < ranges().size(); ++i) {
    if (id < ranges()[i].first || id > ranges()[i].last) continue;
    if (gathered_[i]) wait_for(std::exchange(gathered_[i], nullptr));
  }
  return GradientExchange::acquire(id, pass);
}

void Zero1::reduce(const GradientRange& range, const Tensor& gradients) {
  const Tensor mine = slice_of(range).of(store_.gradients());
  exchange("reduce_scatter", range.name, gradients,
           [&] { communicator_.reduce_scatter(mine, gradients, ReduceOp::sum); });
}

void Zero1::gather() {
  communication_follows_compute();
  for (const GradientRange& range : ranges()) {
    for (const Tensor& flat : {store_.parameters(), store_.gradients()}) {
      if (flat.empty()) continue;
      communicator_.all_gather(range.of(flat), slice_of(range).of(flat));
    }
  }
  communicator_.stream().synchronize();
}

}  // namespace paceline
