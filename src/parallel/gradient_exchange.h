#pragma once
// GradientExchange: data parallelism. Every rank trains on its own rows; before the optimizer sees
// them, gradients become the sum over ranks, which is the average over all rows when each rank's
// are of the mean over all ranks' rows (StepState::ranks): no pass divides, and sums of exact
// gradients are exact. A strategy is a partition of the gradients and whether its ranges are sent
// as they become ready, beside backward, or all after it.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/gradient_ranges.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

class GradientExchange : public ParallelStrategy {
 public:
  // Of naive, flat, overlap or bucketed; ops are of the store's precision.
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

  // Collective; of those that are there, and if so configured.
  void register_with(Communicator& communicator, const std::vector<Tensor>& whole_arrays);
  // Adds up over ranks, on the communication stream.
  virtual void reduce(const GradientRange& range, const Tensor& gradients);
  // Enqueues a collective that may begin now, and notes it.
  void exchange(std::string_view op, const std::string& what, const Tensor& x,
                const std::function<void()>& call) {
    exchange(communicator_.stream(), op, what, x, call);
  }
  void exchange(Stream& stream, std::string_view op, const std::string& what, const Tensor& x,
                const std::function<void()>& call);
  // The compute stream waits for the end of a collective, and notes for how long.
  void wait_for(const EventPtr& end, const std::string& what);
  void communication_follows_compute();
  // The flat array that forward reads the entry from: the copy where there is one and it is read,
  // else the masters.
  [[nodiscard]] const Tensor& read_by_forward(const ParameterEntry& entry) const {
    return store_.copy().empty() || entry.full_precision ? store_.parameters() : store_.copy();
  }

  Ops& ops_;                    // NOLINT: for the strategies below
  Communicator& communicator_;  // NOLINT

 private:
  void send(const GradientRange& range);

  bool overlaps_;
  bool registered_;
  std::vector<std::shared_ptr<void>> registrations_;
  std::vector<GradientRange> ranges_;
  std::vector<std::size_t> awaited_;  // by range: entries whose gradients are not ready yet
  std::size_t reduced_ = 0;           // ranges of the step at hand
};

}  // namespace paceline
