#pragma once
// What a rank does in a step, and at which rates.

#include <limits>
#include <vector>

namespace paceline {

// Of one rank's step. Products with weights, products of attention, what moves parameters (weights
// read, gradients, the optimizer) and what moves activations have rates of their own. Beside them a
// block takes a fixed time: its kernels begin and end with idle multiprocessors.
struct Work {
  double flops = 0;
  double attention_flops = 0;
  double parameter_bytes = 0;
  double activation_bytes = 0;
  double blocks = 0;
};

struct WorkRates {
  double flops_per_s = 0;
  double attention_flops_per_s = 0;
  double parameter_bytes_per_s = 0;
  double activation_bytes_per_s = 0;
  double blocks_per_s = std::numeric_limits<double>::infinity();

  [[nodiscard]] double products_s(const Work& work) const {
    return work.flops / flops_per_s + work.attention_flops / attention_flops_per_s;
  }
  [[nodiscard]] double traffic_s(const Work& work) const {
    return work.parameter_bytes / parameter_bytes_per_s +
           work.activation_bytes / activation_bytes_per_s;
  }
  [[nodiscard]] double fixed_s(const Work& work) const { return work.blocks / blocks_per_s; }
  [[nodiscard]] double seconds(const Work& work) const {
    return products_s(work) + traffic_s(work) + fixed_s(work);
  }
};

struct TimedWork {
  Work work;
  double seconds = 0;
};
// What no device exceeds.
inline constexpr WorkRates unlimited = {
    .flops_per_s = std::numeric_limits<double>::infinity(),
    .attention_flops_per_s = std::numeric_limits<double>::infinity(),
    .parameter_bytes_per_s = std::numeric_limits<double>::infinity(),
    .activation_bytes_per_s = std::numeric_limits<double>::infinity()};
// Least squares of relative errors with no rate above `most`. At most half as many rates as there
// are rows are fitted; the others, which explain least, are `most`. Throws InternalError for no
// rows.
[[nodiscard]] WorkRates fit_rates(const std::vector<TimedWork>& rows,
                                  const WorkRates& most = unlimited);

}  // namespace paceline
