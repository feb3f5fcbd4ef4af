#pragma once
// What is recorded about the run itself: versions, devices, an allow-list of variables, ranks.

#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/world.h"

namespace paceline {

struct RankInfo {
  int rank = 0;
  std::string host;
  std::string cpu;  // the model, as the kernel names it
  int local_rank = 0;
  std::string cores;  // that it may run on, as the kernel lists them: "0-3,8"
  DeviceInfo device;
};

struct RunInfo {
  std::string command;     // the command line, quoted for a shell
  std::string experiment;  // "model"
  std::vector<std::pair<std::string, std::string>> environment;  // attributes of /environment
  std::vector<RankInfo> ranks;
  std::string started;  // ISO 8601, UTC, with milliseconds

  // The name of its group in /runs: `started` without '-' and ':'.
  [[nodiscard]] std::string id() const;
};

// The git hash and dirty flag of this build.
[[nodiscard]] std::string software_version();

// ISO 8601, UTC: "2026-11-21T02:05:31Z".
[[nodiscard]] std::string utc_now();

// The Slurm job that a case is measured in: slurm_job_id (an array's own), array_task (where there
// is an array) and restart (how often the job was requeued), by name; nothing elsewhere.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> slurm_job();

// Collective: what to record of this run; `ranks` is filled on rank 0 only. Of the process's
// variables only those that description_table.cpp lists are kept. device: of this rank.
[[nodiscard]] RunInfo describe_run(World& world, const DeviceInfo& device, std::string command,
                                   std::string experiment);

}  // namespace paceline
