#pragma once
// Data parallelism: the partition of the gradients into ranges, and their exchange, one collective
// per range.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/parallel_strategy.h"

namespace paceline {

struct GradientRange : StoreRange {
  ParameterId first = 0;  // the range has the gradients, or a part, of entries first to last
  ParameterId last = 0;
  std::string name;  // the first parameter and the number of the others: "lm_head.weight + 4"
};

// The ranges, in the order in which backward completes them. Buckets hold at most bucket_bytes of
// gradients of element_bytes each. A larger entry has a bucket of its own. So has the last entry,
// because backward completes its gradient last, and the other gradients need not wait for it. Empty
// for `none`.
[[nodiscard]] std::vector<GradientRange> gradient_ranges(const std::vector<ParameterEntry>& entries,
                                                         Strategy strategy, double bucket_bytes,
                                                         std::size_t element_bytes);

// The last entries of buckets, for fsdp of units: StoreLayout::group_ends of a store that is padded
// there so that all ranks' shards of a group have equal length.
[[nodiscard]] std::vector<ParameterId> group_ends(const std::vector<ParameterEntry>& entries,
                                                  Strategy strategy, double bucket_bytes,
                                                  std::size_t element_bytes);
// The groups of a store with their padding, for reduce_scatter and all_gather. For fsdp they have
// the units' names.
[[nodiscard]] std::vector<GradientRange> group_ranges(const ParameterStore& store,
                                                      Strategy strategy);

// Every rank trains on its own rows, and gradients are summed over ranks before the optimizer step.
// Each rank's gradients are already those of the mean over all ranks' rows (StepState::ranks), so
// that the sum is the gradient of that mean: no separate pass divides, and sums of exact gradients
// are exact. A strategy consists of a partition of the gradients into ranges, and of the time at
// which ranges are sent: when they are ready, overlapping with backward, or all after backward.
class GradientExchange : public ParallelStrategy {
 public:
  // For naive, flat, overlap and bucketed. ops have the store's precision.
  GradientExchange(ParameterStore& store, Ops& ops, Communicator& communicator,
                   const StrategyConfig& config);

  void begin_step() override;
  void gradient_ready(ParameterId id) override;
  void finish_backward() override;
  void register_memory() override;
  void start() override;
  [[nodiscard]] bool communicates() const override { return true; }

  [[nodiscard]] const std::vector<GradientRange>& ranges() const { return ranges_; }

 protected:
  GradientExchange(ParameterStore& store, Ops& ops, Communicator& communicator,
                   const StrategyConfig& config, std::vector<GradientRange> ranges);

  // Collective: registers the arrays that are not empty, if registration is configured.
  void register_with(Communicator& communicator, const std::vector<Tensor>& whole_arrays);
  // Sums over ranks, on the communication stream.
  virtual void reduce(const GradientRange& range, const Tensor& gradients);
  // Enqueues a collective on the stream and records it as an Exchange.
  void exchange(Stream& stream, std::string_view op, const std::string& what, const Tensor& x,
                const std::function<void()>& call);
  // Makes the compute stream wait for the end of a collective, and records the wait.
  void wait_for(const EventPtr& end, const std::string& what);
  void communication_follows_compute();
  // The flat array from which forward reads the entry: the low-precision copy if there is one and
  // the entry is not read in full precision, else the masters.
  [[nodiscard]] const Tensor& read_by_forward(const ParameterEntry& entry) const {
    return store_.copy().empty() || entry.full_precision ? store_.parameters() : store_.copy();
  }

  Ops& ops_;                    // NOLINT: for derived strategies
  Communicator& communicator_;  // NOLINT

 private:
  void send(const GradientRange& range);

  bool overlaps_;  // collectives overlap with backward
  bool registered_;
  std::vector<std::shared_ptr<void>> registrations_;
  std::vector<GradientRange> ranges_;
  std::vector<std::size_t> awaited_;  // by range: entries whose gradients are not ready yet
  std::size_t reduced_ = 0;           // ranges reduced in this step
};

}  // namespace paceline
