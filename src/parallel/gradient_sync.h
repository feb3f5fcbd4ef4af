#pragma once
// GradientSync: data parallelism. Every rank trains on its own rows; before the optimizer sees
// them, gradients become the average over ranks. A strategy is a partition of the gradients and
// whether its ranges are sent as they become ready, beside backward, or all after it.

#include <cstddef>
#include <vector>

#include "core/communicator.h"
#include "core/ops.h"
#include "core/parameter_sync.h"
#include "model/parameter_store.h"
#include "parallel/gradient_ranges.h"

namespace paceline {

struct SyncConfig {
  SyncStrategy strategy = SyncStrategy::bucketed;
  double bucket_bytes = 25e6;
  bool half = false;  // send bfloat16: half the bytes; each rank's gradients are rounded, and so is
                      // the average
};

// One all_reduce of a step.
struct Exchange {
  const GradientRange* range = nullptr;
  std::size_t bytes = 0;
  EventPtr begin;  // on the communication stream
  EventPtr end;
};

class GradientSync final : public ParameterSync {
 public:
  // Of a strategy other than none. The store's gradients need not be allocated yet. Throws
  // OutOfMemory.
  GradientSync(ParameterStore& store, Ops& ops, Communicator& communicator,
               const SyncConfig& config);

  void begin_step() override;
  void ready(ParameterId parameter) override;
  // The compute stream waits until the averages are there.
  void finish() override;
  [[nodiscard]] bool communicates() const override { return true; }

  [[nodiscard]] Communicator& communicator() const { return communicator_; }
  [[nodiscard]] const std::vector<GradientRange>& ranges() const { return ranges_; }
  // Of the step at hand, in the order of sending.
  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return exchanges_; }

 private:
  void send(const GradientRange& range);
  // Where the range travels: in the store, or in the half-type copy.
  [[nodiscard]] Tensor gradients_of(const GradientRange& range) const;
  [[nodiscard]] Tensor sent_part(const GradientRange& range) const;

  ParameterStore& store_;
  Ops& ops_;
  Communicator& communicator_;
  bool overlaps_;
  std::vector<GradientRange> ranges_;
  std::vector<std::size_t> awaited_;  // by range: entries whose gradients are not ready yet
  Array half_;                        // [store size] bfloat16, or empty
  std::vector<Exchange> exchanges_;
};

// Every rank's parameters become rank 0's. Waits.
void broadcast_parameters(const ParameterStore& store, Ops& ops, Communicator& communicator);

}  // namespace paceline
