#pragma once
// Sharding of the optimizer's state: each rank keeps Adam's m and v of a part of the parameters
// only, updates that part, and gets the rest from the others.

#include <vector>

#include "parallel/gradient_sync.h"

namespace paceline {

enum class ShardStrategy : std::uint8_t {
  none,       // every rank updates everything
  broadcast,  // whole tensors have owners, who update and broadcast them
  zero1,      // ZeRO stage 1: reduce_scatter of gradients, all_gather of parameters
};

[[nodiscard]] std::string_view name_of(ShardStrategy strategy);
// Throws InternalError for an unknown name.
[[nodiscard]] ShardStrategy shard_strategy_named(std::string_view name);

// By entry, the rank that owns it: the largest first, each to the rank with the fewest elements so
// far, the lowest of several.
[[nodiscard]] std::vector<int> owners_of(const std::vector<ParameterEntry>& entries, int ranks);

// The course's design: gradients all_reduced in buckets as backward goes; after the optimizer every
// tensor is broadcast by its owner.
class OwnerBroadcast final : public GradientSync {
 public:
  // config's strategy is taken to be bucketed.
  OwnerBroadcast(ParameterStore& store, Ops& ops, Communicator& communicator,
                 const SyncConfig& config);

  void updated() override;
  [[nodiscard]] Shard shard() const override;
  void gather() override;

 private:
  // What the next forward reads: the copy where there is one and it is read, else the masters.
  [[nodiscard]] Tensor read_by_forward(const ParameterEntry& entry) const;

  std::vector<int> owners_;  // by entry
};

// Rajbhandari et al., arXiv:1910.02054, stage 1. Rank r's shard is the r-th of equal slices of
// every bucket. A step gathers what the last one has updated, bucket by bucket in the order in
// which forward reads them, beside forward; backward scatters gradients beside itself. Of a mixed
// precision the copies travel, and the masters of what is read in full precision; a rank's other
// masters are stale until gather().
class Zero1 final : public GradientSync {
 public:
  // config's strategy is taken to be bucketed; the store must have been laid out for as many shards
  // as there are ranks.
  Zero1(ParameterStore& store, Ops& ops, Communicator& communicator, const SyncConfig& config);

  void begin_step() override;
  void before_use(ParameterId parameter) override;
  [[nodiscard]] Shard shard() const override;
  void gather() override;

 private:
  void reduce(const GradientRange& range, const Tensor& gradients) override;
  [[nodiscard]] StoreRange slice_of(const GradientRange& range) const;
  // recv becomes all slices of the range, of this flat array.
  void all_gather(const GradientRange& range, const Tensor& flat);

  std::vector<EventPtr> gathered_;  // by range: its all_gather's end, until forward has waited
};

}  // namespace paceline
