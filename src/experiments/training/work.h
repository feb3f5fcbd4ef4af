#pragma once
// The work of a rank in a step, and the rates at which it is done.

#include <array>
#include <limits>
#include <string_view>

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
};

// A kind of work, by its name in JSON, where the rate is NAME_per_s.
struct WorkKind {
  std::string_view name;
  double Work::*amount;
  double WorkRates::*rate;
};
inline constexpr std::array work_kinds = {
    WorkKind{"projection_flops", &Work::projection_flops, &WorkRates::projection_flops_per_s},
    WorkKind{"feed_forward_flops", &Work::feed_forward_flops, &WorkRates::feed_forward_flops_per_s},
    WorkKind{"head_flops", &Work::head_flops, &WorkRates::head_flops_per_s},
    WorkKind{"attention_flops", &Work::attention_flops, &WorkRates::attention_flops_per_s},
    WorkKind{"parameter_bytes", &Work::parameter_bytes, &WorkRates::parameter_bytes_per_s},
    WorkKind{"activation_bytes", &Work::activation_bytes, &WorkRates::activation_bytes_per_s},
    WorkKind{"blocks", &Work::blocks, &WorkRates::blocks_per_s},
    WorkKind{"heads", &Work::heads, &WorkRates::heads_per_s}};

}  // namespace paceline
