#pragma once
// Optimizer: what turns gradients into new weights at the end of a step.

#include <functional>
#include <string_view>
#include <vector>

#include "core/non_copyable.h"
#include "core/ops.h"
#include "core/step_state.h"
#include "model/parameter_store.h"

namespace paceline {

class Optimizer : NonCopyable {
 public:
  virtual ~Optimizer() = default;

  // A step of the whole: allocate(), begin(), update() of all, end().
  void step(Ops& ops, const StepState& state);
  // Its state, at the first call. Throws OutOfMemory.
  virtual void allocate(Device& /*device*/) {}
  // With loss scaling, all gradients must be final.
  virtual void begin(Ops& /*ops*/, const StepState& /*state*/) {}
  // Updates what lies in this range of the store, whose gradients are final.
  virtual void update(Ops& ops, const StepState& state, const StoreRange& range) = 0;
  // What an update() is called in a profile, and the bytes that it reads and writes.
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual double update_bytes(const StoreRange& range) const = 0;
  // After every range's update.
  virtual void end(Ops& /*ops*/, const StepState& /*state*/) {}
  // As before the first step.
  virtual void reset(Device& /*device*/) {}
  // Its state that has an element for each of the store's.
  [[nodiscard]] virtual std::vector<StoreArray> flat_state() const { return {}; }
};

// What of the store this rank's optimizer updates, and has state for. The whole, by default.
struct Shard {
  std::vector<StoreRange> ranges;
  // Where a rank has the averages of its ranges only: enqueues on the compute stream that
  // found_inf, [1] float64, becomes the largest of any rank's. Empty where every rank has all
  // averages.
  std::function<void(const Tensor& found_inf)> agree;

  [[nodiscard]] static Shard whole(const ParameterStore& store) {
    return {.ranges = {{0, store.size()}}, .agree = nullptr};
  }
};

// Parameters with hyperparameters of their own.
struct ParameterGroup {
  AdamWConfig config;
  std::vector<ParameterId> parameters;
};

// torch.optim.AdamW; with loss scaling, a step whose gradients are not all finite changes nothing
// but the loss scale.
class AdamW final : public Optimizer {
 public:
  AdamW(ParameterStore& store, const AdamWConfig& config, Shard shard);
  // Every parameter of the store is in one group.
  AdamW(ParameterStore& store, const std::vector<ParameterGroup>& groups, Shard shard);

  void allocate(Device& device) override;
  void begin(Ops& ops, const StepState& state) override;
  void update(Ops& ops, const StepState& state, const StoreRange& range) override;
  [[nodiscard]] std::string_view name() const override { return "adamw"; }
  [[nodiscard]] double update_bytes(const StoreRange& range) const override;
  void end(Ops& ops, const StepState& state) override { ops.end_optimizer_step(state); }
  void reset(Device& device) override;
  [[nodiscard]] std::vector<StoreArray> flat_state() const override;

  // Adam's m, [elements of the shard], one range after the other; empty before the first step.
  [[nodiscard]] const Tensor& m() const { return m_; }

 private:
  // A part of a range that is of one group.
  struct Part {
    StoreRange store;
    std::int64_t state_offset;  // into m and v
  };
  struct Group {
    AdamWConfig config;
    std::vector<Part> parts;
  };
  ParameterStore& store_;
  Shard shard_;
  std::vector<Group> groups_;
  std::int64_t state_size_ = 0;
  Array m_;
  Array v_;
};

// torch.optim.SGD without momentum: p -= learning_rate g.
class Sgd final : public Optimizer {
 public:
  Sgd(ParameterStore& store, double learning_rate, Shard shard)
      : store_(store), learning_rate_(learning_rate), shard_(std::move(shard)) {}
  void update(Ops& ops, const StepState& state, const StoreRange& range) override;
  [[nodiscard]] std::string_view name() const override { return "sgd"; }
  [[nodiscard]] double update_bytes(const StoreRange& range) const override;

 private:
  ParameterStore& store_;
  double learning_rate_;
  Shard shard_;
};

}  // namespace paceline
