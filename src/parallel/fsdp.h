#pragma once
#include <optional>
#include <vector>

#include "parallel/zero2.h"

namespace paceline {

// Rajbhandari et al., arXiv:1910.02054, stage 3; fully sharded data parallelism. Each rank also
// keeps only its shard of the parameters. A unit of them (a block, the head) is gathered into a
// slot, in the dtype of products, while the units before it are used; a slot is
// reused once its unit is released. What is read in full precision (norms, the embedding) is
// gathered at the start of the step and stays: it is read from the first layer to the last, and at
// both ends.
//
// Gathers have a communicator of their own, whose stream runs beside that of the scatters. All
// ranks issue both in one order: that of the model's uses. The kernels of both must fit on a GPU at
// once (NCCL's take up to 32 multiprocessors each); where they do not, NCCL_LAUNCH_ORDER_IMPLICIT=1
// keeps ranks from waiting for each other.
class Fsdp final : public Zero2 {
 public:
  // The store keeps this rank's shard, and its groups are units.
  Fsdp(ParameterStore& store, Ops& ops, Communicator& scatters, Communicator& gathers,
       const StrategyConfig& config);

  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override;
  void release(ParameterId id, Pass pass) override;
  void register_memory() override;
  // No rank has the others' shards: each has drawn, or loaded, its own.
  void start() override {}
  void prepare_visits() override;
  void visit_parameters(const Visit& visit) override;

 private:
  struct Slot {
    std::optional<std::size_t> unit;  // whose parameters are here, or on their way
    int in_use = 0;                   // parameters acquired and not yet released
  };
  // A unit, from its first parameter's acquire to another unit's; forward's end ends a use.
  struct Use {
    std::size_t unit;
    bool in_forward;
    [[nodiscard]] bool operator==(const Use&) const = default;
  };

  void gather_ahead() override;
  [[nodiscard]] bool stays(std::size_t unit) const;
  // The unit of a use of the last step, and the next `prefetch` units that its pass used.
  [[nodiscard]] std::vector<std::size_t> units_from(std::size_t use) const;
  void begin_use(const Use& use);
  void gather_units(const std::vector<std::size_t>& units);
  void gather_unit(std::size_t unit);
  [[nodiscard]] Slot* slot_with(std::size_t unit);
  // Of a unit that is neither in use nor needed; null: none.
  [[nodiscard]] Slot* free_slot(const std::vector<std::size_t>& needed);
  [[nodiscard]] Tensor place_of(std::size_t unit);

  Communicator& gathers_;
  int prefetch_;
  std::vector<std::int64_t> resident_offsets_;  // by unit; of those in slots: unused
  Array resident_;
  std::vector<Slot> slots_;
  std::int64_t slot_length_ = 0;
  Array slot_memory_;          // [slots, slot length]
  std::vector<Use> uses_;      // of this step, in order
  std::vector<Use> schedule_;  // of the last step
  Array visited_;              // a unit's masters
};

}  // namespace paceline
