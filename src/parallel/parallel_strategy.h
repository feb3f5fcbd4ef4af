#pragma once
// ParallelStrategy: how ranks that train one model share the work. It decides where parameters lie
// while they are used, which gradients ranks exchange and when, and which parameters this rank's
// optimizer updates.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/communicator.h"
#include "core/ops.h"
#include "core/parameter_access.h"
#include "model/optimizer.h"
#include "model/parameter_store.h"

namespace paceline {

enum class Strategy : std::uint8_t {
  none,             // replicas that exchange nothing
  naive,            // an all_reduce for each parameter, after backward
  flat,             // one of all gradients, after backward
  overlap,          // an all_reduce for each parameter, as soon as its gradient is ready
  bucketed,         // an all_reduce for each bucket, as soon as all its gradients are ready
  owner_broadcast,  // bucketed; whole tensors have owners, who update and broadcast them
  zero1,            // ZeRO stage 1: reduce_scatter of gradients, all_gather of parameters
  zero2,            // stage 2: of the sums of gradients, too, only a shard is kept
  fsdp,             // stage 3: of the parameters, too, which are gathered where they are used
};

constexpr auto names_of(Strategy) {
  return names("none", "naive", "flat", "overlap", "bucketed", "broadcast", "zero1", "zero2",
               "fsdp");
}

// Whether ranks update shards of parameters, equal parts of every group of the store.
constexpr bool is_sharded(Strategy s) {
  return s == Strategy::zero1 || s == Strategy::zero2 || s == Strategy::fsdp;
}

// The size of a window of gradients, in units of the largest group.
constexpr int window_room(Strategy s) {
  constexpr int of_entries_and_buckets = 4;
  constexpr int of_units = 2;
  return s == Strategy::fsdp ? of_units : of_entries_and_buckets;
}

// Whether parameters that were gathered for forward are gathered again for backward.
enum class Reshard : std::uint8_t { no, yes };
constexpr auto names_of(Reshard) { return names("no", "yes"); }

struct StrategyConfig {
  Strategy strategy = Strategy::bucketed;
  double bucket_bytes = 25e6;
  bool registered = false;  // the store's arrays were allocated by the communicator, which is to
                            // register them
  int prefetch = 1;         // fsdp: units that are gathered ahead of the one that is used
  Reshard reshard = Reshard::yes;
};

// One collective of a step.
struct Exchange {
  std::string_view op;
  std::string what;               // of whose parameters
  std::size_t message_bytes = 0;  // the whole buffer
  double sent_bytes = 0;          // that a rank puts on the wire, the average over ranks, in a ring
  std::string_view stream;        // "communication" or "gathers"
  EventPtr begin;                 // there
  EventPtr end;
};

// The compute stream waited for a collective.
struct Wait {
  std::string what;  // of whose parameters
  EventPtr from;
  EventPtr until;
};

class ParallelStrategy : public ParameterAccess {
 public:
  // The store's gradients need not be allocated yet.
  explicit ParallelStrategy(ParameterStore& store) : store_(store) {}

  // ---- of every step; these enqueue and wait for nothing ----------------------------------
  virtual void begin_step() {}
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override {
    const auto before = pass == Pass::backward ? store_.overwritten_by(id) : std::nullopt;
    if (before) wait_until_read(*before);
    return store_.parameter(id);
  }
  void gradient_ready(ParameterId id) override {
    final_after(store_.entries()[id].range(), store_.device().compute_stream());
  }
  // The compute stream waits until gradients are what the optimizer is to see.
  virtual void finish_backward() {}
  // The optimizer has run.
  virtual void updated() {}

  // Called with every range of gradients that are what the optimizer is to see after a stream's
  // work so far, and whose parameters are not read again in the step.
  using WhenFinal = std::function<void(const StoreRange& range, Stream& after)>;
  void when_final(WhenFinal call) { when_final_ = std::move(call); }
  // Called before a stream writes over gradients of this range, which were final: it is to wait
  // until they are not needed any more.
  using BeforeOverwriting = std::function<void(Stream& stream, const StoreRange& range)>;
  void before_overwriting(BeforeOverwriting call) { before_overwriting_ = std::move(call); }

  // ---- around the steps -------------------------------------------------------------------
  // Collective, when all of the store is allocated: registers memory, if so configured.
  virtual void register_memory() {}
  // Collective: every rank's parameters become rank 0's. Waits.
  virtual void start() {}
  // Allocates what visits need. Throws OutOfMemory.
  virtual void prepare_visits() {}
  // Collective, between steps: calls visit() on every rank with all parameters, or all sums of
  // gradients, in the masters' precision: one range of the store after the other. Waits.
  using Visit = std::function<void(const StoreRange& range, const Tensor& values)>;
  virtual void visit_parameters(const Visit& visit) { visit_whole(store_.parameters(), visit); }
  virtual void visit_gradients(const Visit& visit) { visit_whole(store_.gradients(), visit); }

  // What of the store this rank's optimizer is to update.
  [[nodiscard]] virtual Shard shard() const { return Shard::whole(store_); }
  [[nodiscard]] virtual bool communicates() const { return false; }

  // Of the step at hand, in the order of sending.
  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }
  // Where a step waited for collectives, but for those that finish_backward() waits for.
  [[nodiscard]] const std::vector<Wait>& waits() const { return waits_; }

 protected:
  void final_after(const StoreRange& range, Stream& stream) const {
    if (when_final_) when_final_(range, stream);
  }

  void overwritten_by(Stream& stream, const StoreRange& range) const {
    if (before_overwriting_) before_overwriting_(stream, range);
  }
  // The compute stream is to write over this range's gradients.
  virtual void wait_until_read(const StoreRange& range) {
    overwritten_by(store_.device().compute_stream(), range);
  }

  // A flat array, after all work so far.
  void visit_whole(const Tensor& flat, const Visit& visit) const {
    if (flat.empty()) return;
    store_.device().synchronize();
    visit({0, store_.size()}, flat);
  }

  ParameterStore& store_;  // NOLINT: for the strategies alone
  std::vector<Exchange> exchanges_;
  std::vector<Wait> waits_;

 private:
  WhenFinal when_final_;
  BeforeOverwriting before_overwriting_;
};

// Null communicator: of `none` alone. gathers: a duplicate of it, for fsdp; else unused.
[[nodiscard]] std::unique_ptr<ParallelStrategy> make_strategy(const StrategyConfig& config,
                                                              ParameterStore& store, Ops& ops,
                                                              Communicator* communicator,
                                                              Communicator* gathers = nullptr);

}  // namespace paceline
