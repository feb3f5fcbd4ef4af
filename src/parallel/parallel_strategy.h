#pragma once
// ParallelStrategy: how ranks that train one model share the work. It decides where parameters lie
// while they are used, which gradients ranks exchange and when, and which parameters this rank's
// optimizer updates.

#include <cstdint>
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
};

constexpr auto names_of(Strategy) {
  return names("none", "naive", "flat", "overlap", "bucketed", "broadcast", "zero1");
}

struct StrategyConfig {
  Strategy strategy = Strategy::bucketed;
  double bucket_bytes = 25e6;
  bool registered = false;  // the store's arrays were allocated by the communicator, which is to
                            // register them
};

// One collective of a step.
struct Exchange {
  std::string_view op;
  std::string what;               // of whose parameters
  std::size_t message_bytes = 0;  // the whole buffer
  double sent_bytes = 0;          // that a rank puts on the wire, the average over ranks, in a ring
  EventPtr begin;                 // on the communication stream
  EventPtr end;
};

// From one event until the other the compute stream waited for parameters.
using ParameterWait = std::pair<EventPtr, EventPtr>;

class ParallelStrategy : public ParameterAccess {
 public:
  // The store's gradients need not be allocated yet.
  explicit ParallelStrategy(ParameterStore& store) : store_(store) {}

  // ---- of every step; these enqueue and wait for nothing ----------------------------------
  virtual void begin_step() {}
  [[nodiscard]] Parameter acquire(ParameterId id, Pass /*pass*/) override {
    return store_.parameter(id);
  }
  // The compute stream waits until gradients are what the optimizer is to see.
  virtual void finish_backward() {}
  // The optimizer has run.
  virtual void updated() {}

  // ---- around the steps -------------------------------------------------------------------
  // Collective, when all of the store is allocated: registers memory, if so configured.
  virtual void register_memory() {}
  // Collective: every rank's parameters become rank 0's. Waits.
  virtual void start() {}
  // Collective: every rank gets all parameters, and all sums of gradients, in the masters'
  // precision. Waits.
  virtual void gather() {}

  // What of the store this rank's optimizer is to update.
  [[nodiscard]] virtual Shard shard() const { return Shard::whole(store_); }
  [[nodiscard]] virtual bool communicates() const { return false; }

  // Of the step at hand, in the order of sending.
  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }
  // How long forward, or the step's end, waited for parameters.
  [[nodiscard]] const std::vector<ParameterWait>& waits() const { return waits_; }

 protected:
  ParameterStore& store_;  // NOLINT: for the strategies alone
  std::vector<Exchange> exchanges_;
  std::vector<ParameterWait> waits_;
};

// Null communicator: of `none` alone.
[[nodiscard]] std::unique_ptr<ParallelStrategy> make_strategy(const StrategyConfig& config,
                                                              ParameterStore& store, Ops& ops,
                                                              Communicator* communicator);

// By rank, the part of Adam's state that it keeps.
[[nodiscard]] std::vector<double> optimizer_shares(Strategy strategy,
                                                   const std::vector<ParameterEntry>& entries,
                                                   int ranks);

}  // namespace paceline
