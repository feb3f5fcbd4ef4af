#pragma once
// ParallelStrategy: how the ranks that train one model share the work. It decides where parameters
// are stored and gathered, which gradients are exchanged and when, and which parameters this rank's
// optimizer updates.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/communicator.h"
#include "core/ops.h"
#include "core/parameter_access.h"
#include "model/optimizer.h"
#include "model/parameter_store.h"
#include "parallel/optimizer_in_backward.h"

namespace paceline {

enum class Strategy : std::uint8_t {
  none,             // replicas that exchange nothing
  naive,            // one all_reduce per parameter, after backward
  flat,             // one all_reduce of all gradients, after backward
  overlap,          // one all_reduce per parameter, as soon as its gradient is ready
  bucketed,         // one all_reduce per bucket, as soon as all its gradients are ready
  owner_broadcast,  // bucketed; the owner of a tensor updates and broadcasts it
  zero1,            // ZeRO stage 1: reduce_scatter of gradients, all_gather of parameters
  zero2,            // stage 2: summed gradients are sharded too
  fsdp,             // stage 3: parameters are sharded too, and gathered for use
};

constexpr auto names_of(Strategy) {
  return names("none", "naive", "flat", "overlap", "bucketed", "broadcast", "zero1", "zero2",
               "fsdp");
}

// Whether ranks update shards: equal parts of every group of the store.
constexpr bool is_sharded(Strategy s) {
  return s == Strategy::zero1 || s == Strategy::zero2 || s == Strategy::fsdp;
}

// The size of the window of gradients, in multiples of the largest group.
constexpr int window_room(Strategy s) {
  constexpr int of_entries_and_buckets = 4;
  constexpr int of_units = 2;
  return s == Strategy::fsdp ? of_units : of_entries_and_buckets;
}

// Whether parameters gathered for forward are freed, and gathered again for backward.
enum class Reshard : std::uint8_t { no, yes };
constexpr auto names_of(Reshard) { return names("no", "yes"); }

struct StrategyConfig {
  Strategy strategy = Strategy::bucketed;
  double bucket_bytes = 25e6;
  bool registered = false;  // the communicator allocated the store's arrays and registers them
  int prefetch = 1;         // fsdp: units gathered ahead of the unit in use
  Reshard reshard = Reshard::yes;
};

// One collective of a step.
struct Exchange {
  std::string_view op;
  std::string what;               // the parameters, as GradientRange::name
  std::size_t message_bytes = 0;  // of the whole buffer
  double sent_bytes = 0;          // per rank on the wire, in a ring, averaged over ranks
  std::string_view stream;        // "communication" or "gathers"
  EventPtr begin;                 // on that stream
  EventPtr end;
};

// A wait of the compute stream for a collective.
struct Wait {
  std::string what;  // the parameters, as Exchange::what
  EventPtr from;
  EventPtr until;
};

class ParallelStrategy : public ParameterAccess {
 public:
  // The store's gradients may be allocated later.
  explicit ParallelStrategy(ParameterStore& store) : store_(store) {}

  // ---- in every step; these enqueue work and return without waiting ------------------------
  virtual void begin_step() {}
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override {
    const auto before = pass == Pass::backward ? store_.overwritten_by(id) : std::nullopt;
    if (before) wait_until_read(*before);
    Parameter parameter = store_.parameter(id);
    if (pass == Pass::backward && updates_ && store_.entries()[id].uses == 1) {
      parameter.update = updates_->offer(store_.entries()[id].range());
    }
    return parameter;
  }
  void gradient_ready(ParameterId id) override {
    final_after(store_.entries()[id].range(), store_.device().compute_stream());
  }
  // Makes the compute stream wait until the gradients are final, summed over ranks.
  virtual void finish_backward() {}
  // Called after the optimizer step has been enqueued.
  virtual void updated() {}

  // ---- around the steps -------------------------------------------------------------------
  // From now on, every range of parameters is updated as soon as its gradients are final.
  void update_in_backward(OptimizerInBackward& updates) { updates_ = &updates; }
  // Collective, after the whole store is allocated: registers memory, if configured.
  virtual void register_memory() {}
  // Collective: broadcasts rank 0's parameters. Blocking.
  virtual void start() {}
  // Allocates the memory of visit_parameters() and visit_gradients(). Throws OutOfMemory.
  virtual void prepare_visits() {}
  // Collective, between steps: calls visit() on every rank with all parameters, or all summed
  // gradients, in the masters' precision, one range of the store after the other. Blocking.
  using Visit = std::function<void(const StoreRange& range, const Tensor& values)>;
  virtual void visit_parameters(const Visit& visit) { visit_whole(store_.parameters(), visit); }
  virtual void visit_gradients(const Visit& visit) { visit_whole(store_.gradients(), visit); }

  // The part of the store that this rank's optimizer updates.
  [[nodiscard]] virtual Shard shard() const { return Shard::whole(store_); }
  [[nodiscard]] virtual bool communicates() const { return false; }

  // The collectives of this step, in the order in which they were enqueued.
  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }
  // The compute stream's waits for collectives in this step, except those in finish_backward().
  [[nodiscard]] const std::vector<Wait>& waits() const { return waits_; }

 protected:
  // The range's gradients are final after the work enqueued so far on `stream`, and its parameters
  // are not read again in this step.
  void final_after(const StoreRange& range, Stream& stream) const {
    if (updates_) updates_->update(range, stream);
  }
  // Called before `stream` overwrites final gradients of `range`.
  void wait_for_update(Stream& stream, const StoreRange& range) const {
    if (updates_) updates_->wait_for_update(stream, range);
  }
  // Called before the compute stream overwrites the gradients of `range`.
  virtual void wait_until_read(const StoreRange& range) {
    wait_for_update(store_.device().compute_stream(), range);
  }

  // Visits a whole flat array, after all work enqueued so far.
  void visit_whole(const Tensor& flat, const Visit& visit) const {
    if (flat.empty()) return;
    store_.device().synchronize();
    visit({0, store_.size()}, flat);
  }

  ParameterStore& store_;  // NOLINT: for derived strategies
  std::vector<Exchange> exchanges_;
  std::vector<Wait> waits_;

 private:
  OptimizerInBackward* updates_ = nullptr;
};

// communicator: null only for `none`. gathers: its duplicate, used by fsdp only.
[[nodiscard]] std::unique_ptr<ParallelStrategy> make_strategy(const StrategyConfig& config,
                                                              ParameterStore& store, Ops& ops,
                                                              Communicator* communicator,
                                                              Communicator* gathers = nullptr);

}  // namespace paceline
