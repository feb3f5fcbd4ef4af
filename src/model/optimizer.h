#pragma once
// Optimizer: updates parameters from gradients at the end of a step.

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/non_copyable.h"
#include "core/ops.h"
#include "core/step_state.h"
#include "model/parameter_store.h"

namespace paceline {

// The ranges of the store that this rank's optimizer updates and has state for.
struct Shard {
  std::vector<StoreRange> ranges;
  // Set if a rank has averaged gradients of its own ranges only: enqueues on the compute stream an
  // all-reduce (max) of found_inf, [1] float64. Empty if every rank has all averaged gradients.
  std::function<void(const Tensor& found_inf)> agree;

  [[nodiscard]] static Shard whole(const ParameterStore& store) {
    return {.ranges = {{0, store.size()}}, .agree = nullptr};
  }
};

class Optimizer : NonCopyable {
 public:
  virtual ~Optimizer() = default;

  // One complete step: allocate(), begin(), update() of the whole store, end().
  void step(Ops& ops, const StepState& state);
  // Allocates the optimizer state; later calls do nothing. Throws OutOfMemory.
  virtual void allocate(Device& /*device*/) {}
  // Before the first update() of a step. With loss scaling, all gradients must be final by then.
  virtual void begin(Ops& /*ops*/, const StepState& /*state*/) {}
  // Updates the parameters in `range`, whose gradients must be final.
  virtual void update(Ops& ops, const StepState& state, const StoreRange& range) = 0;
  // The update() of the range; none if it cannot be expressed as one WeightUpdate.
  [[nodiscard]] virtual std::optional<WeightUpdate> weight_update(
      const StepState& /*state*/, const StoreRange& /*range*/) const {
    return std::nullopt;
  }
  // The scope of an update() in a profile, and the bytes that it reads and writes.
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] double update_bytes(const StoreRange& range) const;
  // After the last update() of a step.
  virtual void end(Ops& /*ops*/, const StepState& /*state*/) {}
  // Sets the state to its initial values.
  virtual void reset(Device& /*device*/) {}
  // State arrays with one element for each element of the store.
  [[nodiscard]] virtual std::vector<StoreArray> flat_state() const { return {}; }

 protected:
  // accesses: how often an update reads or writes an array in the dtype of the parameters.
  Optimizer(ParameterStore& store, Shard shard, std::size_t accesses)
      : store_(store), shard_(std::move(shard)), accesses_(accesses) {}

  ParameterStore& store_;  // NOLINT: for derived optimizers
  const Shard shard_;      // NOLINT

 private:
  const std::size_t accesses_;
};

// torch.optim.AdamW. With loss scaling, a step whose gradients are not all finite changes only the
// loss scale.
class AdamW final : public Optimizer {
 public:
  AdamW(ParameterStore& store, const AdamWConfig& config, Shard shard);

  void allocate(Device& device) override;
  void begin(Ops& ops, const StepState& state) override;
  void update(Ops& ops, const StepState& state, const StoreRange& range) override;
  // None if the range is not within one range of the shard.
  [[nodiscard]] std::optional<WeightUpdate> weight_update(const StepState& state,
                                                          const StoreRange& range) const override;
  [[nodiscard]] std::string_view name() const override { return "adamw"; }
  void end(Ops& ops, const StepState& state) override { ops.end_optimizer_step(state); }
  void reset(Device& device) override;
  [[nodiscard]] std::vector<StoreArray> flat_state() const override;

  // Adam's first moment, [elements of the shard], ranges concatenated; empty before the first step.
  [[nodiscard]] const Tensor& m() const { return m_; }

 private:
  // A range of the shard.
  struct Part {
    StoreRange store;
    std::int64_t state_offset;  // into m and v
  };
  // Of a range within the part.
  [[nodiscard]] AdamWRange arrays_of(const Part& part, const StoreRange& range) const;

  AdamWConfig config_;
  std::vector<Part> parts_;
  std::int64_t state_size_ = 0;
  Array m_;
  Array v_;
};

// torch.optim.SGD without momentum: p -= learning_rate g.
class Sgd final : public Optimizer {
 public:
  Sgd(ParameterStore& store, double learning_rate, Shard shard)
      : Optimizer(store, std::move(shard), 2), learning_rate_(learning_rate) {}
  void update(Ops& ops, const StepState& state, const StoreRange& range) override;
  [[nodiscard]] std::string_view name() const override { return "sgd"; }

 private:
  double learning_rate_;
};

}  // namespace paceline
