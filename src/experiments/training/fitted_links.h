#pragma once
// Latency and bandwidth of collectives from a result file of `collectives --fit`.

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
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
  std::string redop;  // empty: the operation has none
  std::string cadence;
  std::string cache;         // "warm", "cold"
  std::string in_place;      // "yes", "no"
  std::string registration;  // "none", "symmetric"
  std::int64_t ranks = 0;
  Link link;
  std::string file;
};

// Of two fits, the one that is measured more like the collectives of a training step has the
// smaller value. Values are equal only if the settings are.
[[nodiscard]] inline auto distance_from_training(const FittedLink& f) {
  return std::tuple(f.redop != "sum", f.cache != "warm", f.cadence != "back-to-back",
                    f.registration != "symmetric", f.in_place != "yes", f.redop, f.cadence);
}

// The rows of /fit; files of earlier versions have NaN where a fit had one size: left out. Throws
// Hdf5Error if the file has no /fit.
[[nodiscard]] std::vector<FittedLink> read_fitted_links(const std::string& path);

// Throws UsageError if the fitted time does not grow with the bytes. `option` named the file.
void require_finite_bandwidth(const FittedLink& fitted, std::string_view option);

}  // namespace paceline
