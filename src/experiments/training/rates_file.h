#pragma once
// The JSON file that `paceline-analysis rates` writes: what it fitted to result files.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/training/work.h"

namespace paceline {

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
