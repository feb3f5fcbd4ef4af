#pragma once
// The load of the ranks' cores by programs other than the ranks, from /proc/stat.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/world.h"

namespace paceline {

using CoreSeconds = std::map<int, double>;  // by core

// What a rank counted.
struct RankLoad {
  double seconds = 0;
  double by_process = 0;  // core-seconds of the rank's process
  CoreSeconds busy;       // of each core on which the rank may run; empty if they cannot be read
};

// The seconds since boot in which each of these cores was neither idle nor waiting for a disk.
// root: "/", or another folder in tests.
[[nodiscard]] CoreSeconds busy_seconds(const std::vector<int>& cores,
                                       const std::filesystem::path& root = "/");

// The mean number of the ranks' cores that other programs kept busy, on the host with the highest;
// hosts[rank], ranks[rank]. NaN if every host was counted for less than a second (too few ticks) or
// cannot be read.
[[nodiscard]] double load_of_others(const std::vector<std::string>& hosts,
                                    const std::vector<RankLoad>& ranks);

class HostLoad {
 public:
  HostLoad();  // starts counting

  // Collective: load_of_others() since then on rank 0; NaN on other ranks.
  [[nodiscard]] double others(World& world) const;

 private:
  double began_;  // host_seconds()
  CoreSeconds busy_;
  double by_process_;  // core-seconds of this process
};

}  // namespace paceline
