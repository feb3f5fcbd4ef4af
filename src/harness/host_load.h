#pragma once
// The load of this host by programs other than the ranks of the launch, from /proc/stat.

#include "core/world.h"

namespace paceline {

class HostLoad {
 public:
  HostLoad();  // starts counting

  // Collective: the mean number of cores that other programs kept busy since then, of the host with
  // the highest, on rank 0. NaN on other ranks, after less than a second (too few ticks), and where
  // /proc/stat cannot be read.
  [[nodiscard]] double others(World& world) const;

 private:
  double began_;       // host_seconds()
  double busy_;        // core-seconds of the host
  double by_process_;  // core-seconds of this process
};

}  // namespace paceline
