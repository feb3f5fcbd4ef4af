#pragma once
// Conditions: clocks, power, temperature, involuntary context switches and other programs' load of
// the ranks' cores while a case is measured.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/world.h"
#include "measure/sampler.h"
#include "measure/sensor_log.h"
#include "record/case_record.h"

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

class Conditions : NonCopyable {
 public:
  explicit Conditions(const Device& device);  // starts reading the sensors and /proc/stat

  // Collective: adds on rank 0 the table "clocks", with a row for every rank and repetition, and
  // summary columns over the measured repetitions.
  void add_to(CaseRecord& record, World& world, const Samples& samples) const;

 private:
  SensorLog log_;
  RankLoad load_;  // counted before the case
};

// The rules that flag a case's times as doubtful (docs/measuring.md). For a record that already has
// its samples and conditions; on rank 0.
[[nodiscard]] std::vector<Warning> timing_warnings(const CaseRecord& record, const World& world,
                                                   const DeviceInfo& device);

}  // namespace paceline
