#pragma once
#include <optional>
#include <vector>

#include "parallel/optimizer_sharding.h"

namespace paceline {

// ZeRO stage 3 (Rajbhandari et al., arXiv:1910.02054), fully sharded data parallelism: each rank
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
