#pragma once
// Parameters that ranks train with gradients that a test gives, sharded or not; and a stream that
// is held back, so that what ought to wait for it and does not runs before it.

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "core/non_copyable.h"
#include "core/random.h"
#include "parallel/owner_broadcast.h"
#include "parallel/zero1.h"
#include "tests/ranks/rank_test.h"
#include "tests/ranks/toy_models.h"

namespace paceline {

// What is enqueued on the stream from now on runs after some time only.
class HeldBack : NonCopyable {
 public:
  explicit HeldBack(Stream& stream) {
    std::promise<void> release;
    std::shared_future<void> released = release.get_future().share();
    timer_ = std::thread([release = std::move(release)]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      release.set_value();
    });
    stream.enqueue([released] { released.wait(); });
  }
  ~HeldBack() { timer_.join(); }

 private:
  std::thread timer_;
};

// Neither the entries nor their sum are multiples of anything; two are read in full precision.
inline std::vector<ParameterEntry> uneven_entries() {
  std::vector<ParameterEntry> entries = {toy_entry("head", {7, 33}), toy_entry("w2", {129}),
                                         toy_entry("w1", {1}), toy_entry("norm", {33}),
                                         toy_entry("table", {5, 101})};
  entries[3].full_precision = entries[4].full_precision = true;
  return entries;
}

// Whether this element of the store is of no parameter.
inline bool is_padding(const ParameterStore& store, std::int64_t i) {
  const auto& entries = store.entries();
  return std::none_of(entries.begin(), entries.end(), [i](const ParameterEntry& e) {
    return e.offset <= i && i < e.offset + e.shape.numel();
  });
}

// By rank, step and element of the store.
using Gradients = std::function<float(int, int, std::int64_t)>;

// Up to 4 ranks add these up without rounding, in bfloat16 too.
inline float exact(int rank, int step, std::int64_t i) {
  return static_cast<float>((i * 37 + step * 101 + rank * 13) % 129 - 64) / 1024;
}
inline float normal(int rank, int step, std::int64_t i) {
  const auto stream = static_cast<std::uint64_t>(rank) * 100 + static_cast<std::uint64_t>(step + 1);
  return static_cast<float>(Random(5, stream).uniform4(static_cast<std::uint64_t>(i))[0] - 0.5);
}

// Parameters that are trained with given gradients.
class Replica {
 public:
  Replica(Ops& ops, const std::vector<ParameterEntry>& entries,
          const std::vector<ParameterGroup>& groups, Strategy strategy,
          const StrategyConfig& config)
      : ops_(ops),
        store_(device_, ops.precision(), entries, layout()),
        sync_(make_sync(strategy, config)),
        adamw_(store_, groups, sync_->shard()),
        state_(StepState::create(device_, 1, 1, Dtype::f32, ops.precision().loss_scaling, rate)) {
    store_.allocate_gradients();
    sync_->register_memory();
    sync_->start();
    write(&Parameter::value, [](std::int64_t i) { return normal(0, -1, i); });
    store_.refresh_copy(ops);
  }

  ParameterStore& store() { return store_; }
  GradientExchange& sync() { return dynamic_cast<GradientExchange&>(*sync_); }
  const AdamW& adamw() const { return adamw_; }
  const StepState& state() const { return state_; }

  void train(int steps, const Gradients& gradients) {
    for (int k = 0; k < steps; ++k) step(k, gradients);
  }

  void step(int k, const Gradients& gradients) {
    exchange(k, gradients);
    update();
  }

  void exchange(int k, const Gradients& gradients) {
    begin();
    write(&Parameter::gradient,
          [&](std::int64_t i) { return gradients(shared.world->rank(), k, i); });
    for (ParameterId id = 0; id < store_.entries().size(); ++id) sync_->gradient_ready(id);
    sync_->finish_backward();
  }

  void update() {
    adamw_.step(ops_, state_);
    sync_->updated();
    device_.synchronize();
  }

  // Up to where forward has read everything.
  void begin() {
    sync_->begin_step();
    for (ParameterId id = store_.entries().size(); id-- > 0;)
      (void)sync_->acquire(id, Pass::forward);
    device_.synchronize();
  }

  // What forward reads, entry after entry.
  std::vector<float> read() {
    std::vector<float> values;
    for (ParameterId id = 0; id < store_.entries().size(); ++id) {
      const Parameter p = store_.parameter(id);
      const auto x = floats_of(store_.entries()[id].full_precision ? p.value : p.compute);
      values.insert(values.end(), x.begin(), x.end());
    }
    return values;
  }

 private:
  // Of memory that NCCL registers.
  StoreLayout layout() const {
    StoreLayout layout{.shards = n_, .allocate = {}};
    if (shared.all->backend() == BackendKind::nccl) {
      layout.allocate = [](const Shape& shape, Dtype dtype, MemoryKind kind) {
        return shared.all->allocate(shape, dtype, kind);
      };
    }
    return layout;
  }

  std::unique_ptr<ParallelStrategy> make_sync(Strategy strategy, StrategyConfig config) {
    config.strategy = strategy;
    config.registered = shared.all->backend() == BackendKind::nccl;
    return make_strategy(config, store_, ops_, shared.all);
  }

  // Padding stays 0.
  void write(Tensor Parameter::*part, const std::function<float(std::int64_t)>& of_element) {
    for (ParameterId id = 0; id < store_.entries().size(); ++id) {
      const ParameterEntry& entry = store_.entries()[id];
      std::vector<float> values(static_cast<std::size_t>(entry.shape.numel()));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = of_element(entry.offset + static_cast<std::int64_t>(i));
      }
      const Array wide = device_.allocate(entry.shape, Dtype::f32, MemoryKind::workspace);
      device_.to_device(wide, values.data());
      ops_.cast(store_.parameter(id).*part, wide);
    }
  }

  static constexpr double rate = 0.1;

  Device& device_ = *shared.device;
  int n_ = shared.world->size();
  Ops& ops_;
  ParameterStore store_;
  std::unique_ptr<ParallelStrategy> sync_;
  AdamW adamw_;
  StepState state_;
};

}  // namespace paceline
