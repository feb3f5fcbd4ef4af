#pragma once
// Strategies that shard the optimizer: owner broadcast, and ZeRO stages 1 and 2 (Rajbhandari et
// al., arXiv:1910.02054).

#include <vector>

#include "parallel/gradient_exchange.h"

namespace paceline {

// The owner of each entry, by LPT scheduling: entries in order of decreasing size, each to the rank
// with the fewest elements so far (the lowest such rank).
[[nodiscard]] std::vector<int> owners_of(const std::vector<ParameterEntry>& entries, int ranks);

// The course's design: gradients are all_reduced in buckets during backward; after the optimizer
// step every tensor is broadcast by its owner.
class OwnerBroadcast final : public GradientExchange {
 public:
  OwnerBroadcast(ParameterStore& store, Ops& ops, Communicator& communicator,
                 const StrategyConfig& config);

  void updated() override;
  [[nodiscard]] Shard shard() const override;
  void visit_parameters(const Visit& visit) override;

 private:
  std::vector<int> owners_;  // by entry
};

// ZeRO stage 1. Every group of the store (a bucket) is
// divided into equal slices; rank r's shard is the r-th slice of each. During forward, all_gathers
// bring the parameters that the last step updated, group by group in the order in which forward
// reads them. During backward, reduce_scatters sum the gradients. In mixed precision the
// low-precision copies are gathered, and the masters of parameters that are read in full precision;
// the other masters outside a rank's shard are stale until visit_parameters().
class Zero1 : public GradientExchange {
 public:
  // The store must be laid out for one shard of each group per rank.
  Zero1(ParameterStore& store, Ops& ops, Communicator& communicator, const StrategyConfig& config);

  void begin_step() override;
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override;
  [[nodiscard]] Shard shard() const override;
  void visit_parameters(const Visit& visit) override { gather(store_.parameters(), visit); }
  void visit_gradients(const Visit& visit) override { gather(store_.gradients(), visit); }

 protected:
  [[nodiscard]] StoreRange shard_of(const StoreRange& group) const {
    return store_.shard_of(group, communicator_.rank());
  }
  [[nodiscard]] std::size_t group_of(ParameterId id) const { return groups_of_[id]; }
  // Enqueues the gathers that precede forward's uses.
  virtual void gather_ahead();
  // Gathers a group after the work enqueued so far on the compute stream. The next acquire() of one
  // of its parameters waits for the gather.
  void gather_group(std::size_t group, const Tensor& whole, const Tensor& shard,
                    Communicator& communicator);
  void reduce(const GradientRange& range, const Tensor& gradients) override;

 private:
  void gather(const Tensor& flat, const Visit& visit);

  std::vector<std::size_t> groups_of_;  // by parameter
  std::vector<EventPtr> gathered_;  // by group: end of its all_gather, until compute waits for it
};

// ZeRO stage 2: zero1 that keeps only this rank's shard of
// the summed gradients. Backward writes gradients to a window of a few groups, from which they are
// reduce_scattered.
class Zero2 : public Zero1 {
 public:
  Zero2(ParameterStore& store, Ops& ops, Communicator& communicator, const StrategyConfig& config);

  void begin_step() override;
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override;
  void visit_gradients(const Visit& visit) override;

 private:
  void wait_until_read(const StoreRange& range) override;
  void reduce(const GradientRange& range, const Tensor& gradients) override;

  // By group, in this step.
  std::vector<bool> scattered_;
  std::vector<EventPtr> pending_;  // end of its reduce_scatter, until compute waits for it
};

}  // namespace paceline
