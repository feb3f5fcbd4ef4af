#pragma once
// The work of a rank in a step, the rates at which it is done, and the JSON file that
// `paceline-analysis rates` writes: what it fitted to result files.

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
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

struct Link {
  double latency = 0;    // s
  double bandwidth = 0;  // message bytes/s (algbw)
};

// The fit of a collective operation. Of the fits that differ only in other settings, the file has
// the one that was measured most like the collectives of a training step.
struct FittedLink {
  std::string device;
  std::string backend;  // "mpi", "nccl"
  std::string op;
  std::string dtype;
  std::string redop;  // empty: the operation has none
  std::string cache;  // "warm", "cold"
  std::int64_t ranks = 0;
  Link link;
};

// Rates of steps on one device.
struct StepRates {
  std::string device;  // "cpu", or the GPU's model, "NVIDIA H200"
  std::string group;   // the steps that share the rates: group_of() of a plan
  WorkRates rates;
  // By model size: tokens per rank, ascending, and the ratio of measured to fitted time.
  std::map<std::string, std::vector<std::pair<double, double>>> sizes;
};

struct RatesFile {
  std::string path;
  std::vector<StepRates> steps;
  std::vector<FittedLink> links;
  // By kind of device: the slowdown of steps by overlapped collectives, as a fraction of the
  // collectives' time.
  std::map<std::string, double> contention;
};

// Throws UsageError with the file and the field.
[[nodiscard]] RatesFile read_rates(const std::string& path);

}  // namespace paceline
