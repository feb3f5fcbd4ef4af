#pragma once
// Parameters that ranks train with given gradients, sharded or not; and a delayed stream, which
// exposes work that should wait for it but does not.

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/non_copyable.h"
#include "core/random.h"
#include "parallel/optimizer_sharding.h"
#include "tests/ranks/rank_test.h"
#include "tests/ranks/toy_models.h"

namespace paceline {

// Delays the work that is enqueued on the stream from now on.
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

// Uneven sizes; two entries are read in full precision.
inline std::vector<ParameterEntry> uneven_entries() {
  std::vector<ParameterEntry> entries = {toy_entry("head", {7, 33}), toy_entry("w2", {129}),
                                         toy_entry("w1", {1}), toy_entry("norm", {33}),
                                         toy_entry("table", {5, 101})};
  entries[3].full_precision = entries[4].full_precision = true;
  return entries;
}

// Whether this element of the store is padding.
inline bool is_padding(const ParameterStore& store, std::int64_t i) {
  const auto& entries = store.entries();
  return std::none_of(entries.begin(), entries.end(), [i](const ParameterEntry& e) {
    return e.offset <= i && i < e.offset + e.shape.numel();
  });
}

// The gradient, by rank, step and element of the store.
using Gradients = std::function<float(int, int, std::int64_t)>;

// The sums over up to 4 ranks are exact, also in bfloat16.
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
  // padded_for: the store is padded as for this strategy.
  Replica(Ops& ops, const std::vector<ParameterEntry>& entries, Strategy strategy,
          const StrategyConfig& config, std::optional<Strategy> padded_for = {})
      : ops_(ops),
        store_(
            device_, ops.precision(), entries,
            layout(strategy, group_ends(entries, padded_for.value_or(strategy), config.bucket_bytes,
                                        size_of(ops.precision().communication)))),
        sync_(make_sync(strategy, config)),
        adamw_(store_, {.weight_decay = 0.1}, sync_->shard()),
        state_(StepState::create(device_, 1, 1, Dtype::f32, ops.precision().loss_scaling, rate)) {
    store_.allocate_gradients();
    sync_->register_memory();
    sync_->start();
    for (const StoreRange& kept : store_.kept()) {
      for (const ParameterEntry& entry : store_.entries()) {
        const StoreRange part = intersection(entry.range(), kept);
        if (part.length == 0) continue;
        write(part.offset, store_.parameters(part),
              [](std::int64_t i) { return normal(0, -1, i); });
      }
    }
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
    store_.begin_backward();
    for (ParameterId id = 0; id < store_.entries().size(); ++id) {
      const ParameterUse use(*sync_, id, Pass::backward);
      const Parameter& p = use;
      write(store_.entries()[id].offset, p.gradient,
            [&](std::int64_t i) { return gradients(shared.world->rank(), k, i); });
      sync_->gradient_ready(id);
    }
    sync_->finish_backward();
  }

  void update() {
    adamw_.step(ops_, state_);
    sync_->updated();
    device_.synchronize();
  }

  // Runs forward's reads; returns the values read, entry by entry, from the last entry.
  std::vector<float> begin() {
    std::vector<float> values;
    sync_->begin_step();
    for (ParameterId id = store_.entries().size(); id-- > 0;) {
      const ParameterUse use(*sync_, id, Pass::forward);
      const Parameter& p = use;
      const auto x = floats_of(store_.entries()[id].full_precision ? p.value : p.compute);
      values.insert(values.end(), x.begin(), x.end());
    }
    device_.synchronize();
    return values;
  }

 private:
  // In memory that NCCL registers.
  StoreLayout layout(Strategy strategy, std::vector<ParameterId> group_ends) const {
    StoreLayout layout;
    layout.shards = n_;
    layout.group_ends = std::move(group_ends);
    if (strategy == Strategy::fsdp) layout.kept_shard = shared.world->rank();
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
    return make_strategy(config, store_, ops_, shared.all, shared.gathers);
  }

  // By element of the store. Padding is 0.
  void write(std::int64_t offset, const Tensor& to,
             const std::function<float(std::int64_t)>& of_element) {
    std::vector<float> values(static_cast<std::size_t>(to.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = of_element(offset + static_cast<std::int64_t>(i));
    }
    const Array wide = device_.allocate(to.shape, Dtype::f32, MemoryKind::workspace);
    device_.to_device(wide, values.data());
    ops_.cast(to, wide);
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
