#pragma once
// GradientSync: data parallelism. Every rank trains on its own rows; before the optimizer sees
// them, gradients become the sum over ranks, which is the average over all rows when each rank's
// are of the mean over all ranks' rows (StepState::ranks): no pass divides, and sums of exact
// gradients are exact. A strategy is a partition of the gradients and whether its ranges are sent
// as they become ready, beside backward, or all after it.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/communicator.h"
#include "core/ops.h"
#include "core/parameter_sync.h"
#include "model/optimizer.h"
#include "model/parameter_store.h"
#include "parallel/gradient_ranges.h"

namespace paceline {

struct SyncConfig {
  SyncStrategy strategy = SyncStrategy::bucketed;
  double bucket_bytes = 25e6;
  bool registered = false;  // the store's arrays were allocated by the communicator, which is to
                            // register them
};

// One collective of a step.
struct Exchange {
  std::string_view op;
  std::string what;       // of whose parameters
  std::size_t bytes = 0;  // of the message: the whole buffer
  double sent = 0;        // bytes that a rank sends for it, the average over ranks, in a ring
  EventPtr begin;         // on the communication stream
  EventPtr end;
};

class GradientSync : public ParameterSync {
 public:
  // Of a strategy other than none; ops are of the store's precision. The store's gradients need not
  // be allocated yet.
  GradientSync(ParameterStore& store, Ops& ops, Communicator& communicator,
               const SyncConfig& config);

  // Before the first step, when all of the store is allocated: registers it, if so configured, and
  // every rank's parameters become rank 0's. Collective; waits.
  void start();
  void begin_step() override;
  void ready(ParameterId parameter) override;
  // The compute stream waits until the sums are there.
  void finish() override;
  [[nodiscard]] bool communicates() const override { return true; }

  // What of the store this rank's optimizer is to update.
  [[nodiscard]] virtual Shard shard() const { return Shard::whole(store_); }
  // Every rank gets all parameters, and all sums, in the masters' precision. Collective; waits.
  virtual void gather() {}

  [[nodiscard]] const std::vector<GradientRange>& ranges() const { return ranges_; }
  // Of the step at hand, in the order of sending.
  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }
  // How long forward, or the step's end, waited for parameters: from, until, on the compute stream.
  [[nodiscard]] const std::vector<std::pair<EventPtr, EventPtr>>& waits() const { return waits_; }

 protected:
  GradientSync(ParameterStore& store, Ops& ops, Communicator& communicator,
               const SyncConfig& config, std::vector<GradientRange> ranges);

  // Adds up over ranks, on the communication stream.
  virtual void reduce(const GradientRange& range, const Tensor& gradients);
  // Enqueues a collective that may begin now, and notes it.
  void exchange(std::string_view op, const std::string& what, const Tensor& x,
                const std::function<void()>& call);
  // The compute stream waits for the end of a collective, and notes for how long.
  void wait_for(const EventPtr& end);
  void communication_follows_compute();

  ParameterStore& store_;
  Ops& ops_;
  Communicator& communicator_;

 private:
  void send(const GradientRange& range);

  bool overlaps_;
  bool registered_;
  std::vector<std::shared_ptr<void>> registrations_;
  std::vector<GradientRange> ranges_;
  std::vector<std::size_t> awaited_;  // by range: entries whose gradients are not ready yet
  std::vector<Exchange> exchanges_;
  std::vector<std::pair<EventPtr, EventPtr>> waits_;
  std::size_t reduced_ = 0;  // ranges of the step at hand
};

// Every rank's parameters become rank 0's. Waits.
void broadcast_parameters(const ParameterStore& store, Ops& ops, Communicator& communicator);

}  // namespace paceline
