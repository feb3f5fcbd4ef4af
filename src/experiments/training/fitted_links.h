#pragma once
// Latency and bandwidth of collectives from a result file of `collectives --fit`.

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

struct Link {
  double latency = 0;    // s
  double bandwidth = 0;  // message bytes/s (algbw)
};

struct FittedLink {
  std::string backend;  // "mpi", "nccl"
  std::string op;
  std::string dtype;
  std::string cadence;
  std::string in_place;      // "yes", "no"
  std::string registration;  // "none", "symmetric"
  std::int64_t ranks = 0;
  Link link;
};

// The rows of /fit; files of earlier versions have NaN where a fit had one size: left out. Throws
// Hdf5Error if the file has no /fit.
[[nodiscard]] std::vector<FittedLink> read_fitted_links(const std::string& path);

}  // namespace paceline
