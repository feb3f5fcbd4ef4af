#include "cuda/gemm/round_robin.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cuda/runtime/check.h"

namespace paceline {

namespace {

// Empty if there is no memory for it.
Array as_large_as_the_cache(CudaDevice& device) {
  const auto bytes = static_cast<std::int64_t>(device.properties().l2CacheSize);
  if (bytes == 0) return {};
  try {
    return device.allocate({(bytes + 3) / 4}, Dtype::f32, MemoryKind::workspace);
  } catch (const OutOfMemory&) {
    return {};
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class RoundRobin {
 public:
  RoundRobin(CudaDevice& device, const std::vector<Alternative>& runs, const Tensor& warm)
      : device_(device), runs_(runs), warm_(warm), other_data_(as_large_as_the_cache(device)) {}

  // Runs every alternative once and drops those that cannot be run. This also loads the kernels,
  // while the host waits.
  void try_each() {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i]()) usable_.push_back(i);
    }
    device_.synchronize();  // all streams: nothing may run beside the timed kernels
  }

  [[nodiscard]] bool empty() const { return usable_.empty(); }

  // Seconds of a round.
  [[nodiscard]] double time_round() {
    const EventPtr begin = device_.compute_stream().record();
    enqueue_round();
    const EventPtr end = device_.compute_stream().record();
    end->synchronize();
    return end->seconds_since(*begin);
  }

  // Medians over `rounds` rounds, after one in which the clock settles.
  [[nodiscard]] std::vector<double> medians(int rounds) {
    enqueue_round();
    std::vector<std::vector<Interval>> intervals;
    for (int i = 0; i < rounds; ++i) intervals.push_back(enqueue_round());
    device_.compute_stream().synchronize();
    std::vector<double> all(runs_.size(), std::numeric_limits<double>::infinity());
    for (std::size_t u = 0; u < usable_.size(); ++u) {
      std::vector<double> seconds;
      for (const std::vector<Interval>& round : intervals) {
        seconds.push_back(round[u].second->seconds_since(*round[u].first));
      }
      all[usable_[u]] = median(std::move(seconds));
    }
    return all;
  }

 private:
  using Interval = std::pair<EventPtr, EventPtr>;

  std::vector<Interval> enqueue_round() {
    CudaStream& stream = device_.compute_stream();
    std::vector<Interval> intervals;
    for (const std::size_t i : usable_) {
      fill_cache();
      EventPtr begin = stream.record();
      if (!runs_[i]()) throw InternalError("a product that ran once could not be run again");
      intervals.emplace_back(std::move(begin), stream.record());
    }
    return intervals;
  }

  void fill_cache() {
    if (other_data_.empty()) return;
    const Tensor other = other_data_;
    device_.zero(other);
    CUDA_CHECK(cudaMemcpyAsync(other.data, warm_.data, std::min(warm_.bytes(), other.bytes()),
                               cudaMemcpyDeviceToDevice, device_.compute_stream().get()));
  }

  CudaDevice& device_;
  const std::vector<Alternative>& runs_;
  Tensor warm_;
  Array other_data_;
  std::vector<std::size_t> usable_;
};

}  // namespace

std::vector<double> round_robin_medians(CudaDevice& device, const std::vector<Alternative>& runs,
                                        const Tensor& warm) {
  constexpr double seconds_of_work = 0.02;
  constexpr double min_rounds = 3;
  constexpr double max_rounds = 15;
  RoundRobin round_robin(device, runs, warm);
  round_robin.try_each();
  if (round_robin.empty()) {
    return std::vector<double>(runs.size(), std::numeric_limits<double>::infinity());
  }
  const double rounds =
      std::clamp(std::round(seconds_of_work / round_robin.time_round()), min_rounds, max_rounds);
  return round_robin.medians(static_cast<int>(rounds));
}

}  // namespace paceline
