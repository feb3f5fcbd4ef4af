#pragma once
// The work of a rank in a step, the rates at which it is done, and their fit.

#include <limits>
#include <vector>

namespace paceline {

// The work of one rank's step. Each kind has its own rate. In addition a block and a head take a
// fixed time. Multiprocessors idle at the start and the end of a block's kernels. The T x T
// products of one head and one sequence are too small to reach the rate of large products.
struct Work {
  double projection_flops = 0;    // products with D x D weights
  double feed_forward_flops = 0;  // with D x F weights
  double head_flops = 0;          // with D x V weights
  double attention_flops = 0;     // attention's T x T products
  double parameter_bytes = 0;     // weights, gradients and optimizer state, read and written
  double activation_bytes = 0;    // activations, read and written
  double blocks = 0;
  double heads = 0;  // of all sequences and blocks

  [[nodiscard]] double weight_flops() const {
    return projection_flops + feed_forward_flops + head_flops;
  }
};

struct WorkRates {
  double projection_flops_per_s = 0;
  double feed_forward_flops_per_s = 0;
  double head_flops_per_s = 0;
  double attention_flops_per_s = 0;
  double parameter_bytes_per_s = 0;
  double activation_bytes_per_s = 0;
  double blocks_per_s = std::numeric_limits<double>::infinity();
  double heads_per_s = std::numeric_limits<double>::infinity();

  [[nodiscard]] double products_s(const Work& work) const {
    return work.projection_flops / projection_flops_per_s +
           work.feed_forward_flops / feed_forward_flops_per_s + work.head_flops / head_flops_per_s +
           work.attention_flops / attention_flops_per_s;
  }
  [[nodiscard]] double traffic_s(const Work& work) const {
    return work.parameter_bytes / parameter_bytes_per_s +
           work.activation_bytes / activation_bytes_per_s;
  }
  [[nodiscard]] double fixed_s(const Work& work) const {
    return work.blocks / blocks_per_s + work.heads / heads_per_s;
  }
  [[nodiscard]] double seconds(const Work& work) const {
    return products_s(work) + traffic_s(work) + fixed_s(work);
  }
};

struct TimedWork {
  Work work;
  double seconds = 0;
};
inline constexpr WorkRates unlimited = {
    .projection_flops_per_s = std::numeric_limits<double>::infinity(),
    .feed_forward_flops_per_s = std::numeric_limits<double>::infinity(),
    .head_flops_per_s = std::numeric_limits<double>::infinity(),
    .attention_flops_per_s = std::numeric_limits<double>::infinity(),
    .parameter_bytes_per_s = std::numeric_limits<double>::infinity(),
    .activation_bytes_per_s = std::numeric_limits<double>::infinity()};
// Fits rates to measured times: least squares of relative errors, no rate above `most`. As many
// rates can be fitted as there are kinds timed alone, plus one for every two rows that mix kinds,
// at least one. Of all subsets up to that size the one with the least error is fitted; rates
// outside it are `most`. Products with weights share one rate unless rows have those of one shape
// alone. Throws InternalError without rows.
[[nodiscard]] WorkRates fit_rates(const std::vector<TimedWork>& times,
                                  const WorkRates& most = unlimited);

}  // namespace paceline
