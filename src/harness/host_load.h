#pragma once
// The load of this host by programs other than the ranks of the launch, from /proc/stat.

#include <string>
#include <vector>

#include "core/world.h"

namespace paceline {

// What a rank counted.
struct RankLoad {
  double seconds = 0;
  double busy = 0;        // core-seconds of the host; NaN if it cannot be read
  double by_process = 0;  // core-seconds of the rank's process
};

// The mean number of cores that programs other than the ranks kept busy, of the host with the
// highest; hosts[rank], ranks[rank]. NaN if every host was counted for less than a second (too few
// ticks) or cannot be read.
[[nodiscard]] double load_of_others(const std::vector<std::string>& hosts,
                                    const std::vector<RankLoad>& ranks);

class HostLoad {
 public:
  HostLoad();  // starts counting

  // Collective: load_of_others() since then on rank 0; NaN on other ranks.
  [[nodiscard]] double others(World& world) const;

 private:
  double began_;       // host_seconds()
  double busy_;        // core-seconds of the host
  double by_process_;  // core-seconds of this process
};

}  // namespace paceline
