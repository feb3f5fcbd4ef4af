#pragma once
// How busy this host is beside the ranks of the launch, as /proc/stat counts it.

#include "core/world.h"

namespace paceline {

class HostLoad {
 public:
  HostLoad();  // counts from here on

  // Collective: on rank 0 the cores that other programs kept busy in the mean since then, of the
  // host with the most; NaN for less than a second, whose ticks say too little, and
  // where the system does not count. Nothing (NaN) on other ranks.
  [[nodiscard]] double others(World& world) const;

 private:
  double began_;       // host_seconds()
  double busy_;        // core seconds of the host
  double by_process_;  // core seconds of this process
};

}  // namespace paceline
