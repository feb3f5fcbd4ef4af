#pragma once
// Strategies that shard the optimizer: owner broadcast, and ZeRO stages 1 to 3 (Rajbhandari et
// al., arXiv:1910.02054).

#include <optional>
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

// ZeRO stage 3, fully sharded data parallelism: each rank
// also keeps only its shard of the parameters. A unit (a block, the head) is gathered into a slot,
// in the compute dtype, while earlier units are in use. A slot is reused once its unit is released.
// Parameters that are read in full precision (norms, the embedding) are gathered at the start of
// the step and stay resident, because they are used throughout the step.
//
// Gathers have their own communicator, whose stream runs concurrently with that of the
// reduce_scatters. All ranks issue both in the same order, that of the model's uses. The kernels of
// both must fit on a GPU at once (NCCL's take up to 32 multiprocessors each); if they do not,
// NCCL_LAUNCH_ORDER_IMPLICIT=1 prevents a deadlock between ranks.
class Fsdp final : public Zero2 {
 public:
  // The store holds this rank's shard; its groups are the units.
  Fsdp(ParameterStore& store, Ops& ops, Communicator& scatters, Communicator& gathers,
       const StrategyConfig& config);

  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override;
  void release(ParameterId id, Pass pass) override;
  void register_memory() override;
  // Nothing to broadcast: each rank has drawn, or loaded, its own shard.
  void start() override {}
  void prepare_visits() override;
  void visit_parameters(const Visit& visit) override;

 private:
  struct Slot {
    std::optional<std::size_t> unit;  // the unit in this slot, gathered or being gathered
    int in_use = 0;                   // parameters acquired and not yet released
  };
  // A period of use of a unit: from the first acquire of one of its parameters until another unit
  // is acquired or forward ends.
  struct Use {
    std::size_t unit;
    bool in_forward;
    [[nodiscard]] bool operator==(const Use&) const = default;
  };

  void gather_ahead() override;
  [[nodiscard]] bool is_resident(std::size_t unit) const;
  // The unit of use `use` of the last step's schedule, and the next `prefetch` units of the same
  // pass.
  [[nodiscard]] std::vector<std::size_t> units_from(std::size_t use) const;
  void begin_use(const Use& use);
  void gather_units(const std::vector<std::size_t>& units);
  void gather_unit(std::size_t unit);
  [[nodiscard]] Slot* slot_with(std::size_t unit);
  // An empty slot, or one whose unit is neither in use nor in `needed`; null: none.
  [[nodiscard]] Slot* free_slot(const std::vector<std::size_t>& needed);
  [[nodiscard]] Tensor place_of(std::size_t unit);

  Communicator& gathers_;
  int prefetch_;
  std::vector<std::int64_t> resident_offsets_;  // by unit; unused for units in slots
  Array resident_;
  std::vector<Slot> slots_;
  std::int64_t slot_length_ = 0;
  Array slot_memory_;          // [slots, slot length]
  std::vector<Use> uses_;      // of this step, in order
  std::vector<Use> schedule_;  // uses_ of the last step
  Array visited_;              // one unit's masters, for visit_parameters()
};

}  // namespace paceline
