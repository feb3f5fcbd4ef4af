#pragma once
// The description of a run: versions, devices, an allow-list of environment variables, ranks.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/world.h"

namespace paceline {

struct RankInfo {
  int rank = 0;
  std::string host;
  std::string cpu;  // model name from /proc/cpuinfo
  int local_rank = 0;
  std::string cores;  // CPU affinity in the kernel's list format: "0-3,8"
  DeviceInfo device;
};

struct RunInfo {
  std::string command;     // the command line, quoted for a shell
  std::string experiment;  // "model"
  std::vector<std::pair<std::string, std::string>> environment;  // attributes of /environment
  std::vector<RankInfo> ranks;
  std::string started;  // ISO 8601, UTC, with milliseconds

  std::string previous = {};  // the newest run that the file has already; empty: none

  // The name of its group in /runs: `started` without '-' and ':'. Names sort by age: if the clock
  // was set back since the previous run, a '+' follows the name of that one.
  [[nodiscard]] std::string id() const;
};

// Whether the file was written after the run with this id began; false if there is no file.
[[nodiscard]] bool changed_after(const std::string& run, const std::filesystem::path& file);

// The git hash and dirty flag of this build.
[[nodiscard]] std::string software_version();

// ISO 8601, UTC: "2026-11-21T02:05:31Z".
[[nodiscard]] std::string utc_now();

// The current Slurm job, by name: slurm_job_id (for an array, that of the array), array_task (only
// in an array) and restart (how often the job was requeued). Empty outside of Slurm.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> slurm_job();

// Collective: describes this run; `ranks` is filled on rank 0 only. Only environment variables
// listed in description_table.cpp are recorded. device: that of this rank.
[[nodiscard]] RunInfo describe_run(World& world, const DeviceInfo& device, std::string command,
                                   std::string experiment);

}  // namespace paceline
