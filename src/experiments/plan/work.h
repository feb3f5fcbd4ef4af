#pragma once
// What a rank does in a step, and at which rates.

#include <vector>

namespace paceline {

// Of one rank's step. Products with weights move few bytes for their FLOPs; what moves parameters
// (weights read, gradients, the optimizer) and what moves activations have rates of their own.
struct Work {
  double flops = 0;
  double parameter_bytes = 0;
  double activation_bytes = 0;
};

struct WorkRates {
  double flops_per_s = 0;
  double parameter_bytes_per_s = 0;
  double activation_bytes_per_s = 0;

  [[nodiscard]] double products_s(const Work& work) const { return work.flops / flops_per_s; }
  [[nodiscard]] double traffic_s(const Work& work) const {
    return work.parameter_bytes / parameter_bytes_per_s +
           work.activation_bytes / activation_bytes_per_s;
  }
  [[nodiscard]] double seconds(const Work& work) const {
    return products_s(work) + traffic_s(work);
  }
};

struct TimedWork {
  Work work;
  double seconds = 0;
};
// Least squares of relative errors with no rate below 0; a rate that explains nothing is infinite.
// Throws InternalError for no rows.
[[nodiscard]] WorkRates fit_rates(const std::vector<TimedWork>& rows);

}  // namespace paceline
