#include "record/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "core/blas_kernels.h"
#include "core/error.h"
#include "core/host.h"
#include "record/descriptions.h"
#include "version.h"

// Only OpenBLAS has this function.
extern "C" __attribute__((weak)) char* openblas_get_config();

namespace paceline {

namespace {

// The first value of "name : value" or name="value" in a file of such lines; "" when there is none.
std::string value_in(const char* path, std::string_view name, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(separator);
    if (!line.starts_with(name) || at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    std::erase(value, '"');
    value.erase(0, value.find_first_not_of(" \t"));
    return value;
  }
  return "";
}

std::string kernel() {
  utsname system{};
  uname(&system);
  return fmt::format("{} {} {}", system.sysname, system.release, system.machine);
}

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

bool may_be_kept(std::string_view variable) {
  // Set by mpirun so that its daemons find each other, never by users.
  constexpr std::array<std::string_view, 3> internal = {"OMPI_MCA_orte_", "OMPI_MCA_ess",
                                                        "OMPI_MCA_initial_wdir"};
  const auto begins_with = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  const bool is_upper = !variable.empty() && variable.front() >= 'A' && variable.front() <= 'Z';
  return is_upper && find_description("environment attributes", variable) != nullptr &&
         std::none_of(internal.begin(), internal.end(), begins_with);
}

std::vector<std::pair<std::string, std::string>> kept_variables() {
  std::vector<std::pair<std::string, std::string>> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (may_be_kept(name) && name.size() < text.size()) {
      kept.emplace_back(name, text.substr(name.size() + 1));
    }
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::string utc_ms(std::chrono::system_clock::time_point time) {
  const auto whole = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto second = std::chrono::floor<std::chrono::seconds>(whole);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     (whole - second).count());
}

// What a rank tells of itself, for gather().
auto fields_of(RankInfo& rank) {
  DeviceInfo& d = rank.device;
  return std::tie(rank.rank, rank.local_rank, d.memory_bytes, d.threads, d.kind, rank.host,
                  rank.cpu, rank.cores, d.name, d.uuid, d.pci_bus_id);
}
using Text = std::string;
using RankFields =
    std::tuple<int, int, std::size_t, int, DeviceKind, Text, Text, Text, Text, Text, Text>;

}  // namespace

std::string software_version() { return PACELINE_VERSION; }

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::string RunInfo::id() const {
  std::string id = started;
  std::erase_if(id, [](char c) { return c == '-' || c == ':'; });
  return previous.empty() || id > previous ? id : previous + "+";
}

bool changed_after(const std::string& run, const std::filesystem::path& file) {
  std::error_code gone;
  const auto written = std::filesystem::last_write_time(file, gone);
  if (gone) return false;
  return RunInfo{.started = utc_ms(std::chrono::file_clock::to_sys(written))}.id() > run;
}

std::vector<std::pair<std::string, std::string>> slurm_job() {
  const auto variable = [](const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? otherwise : value);
  };
  const std::string job = variable("SLURM_JOB_ID", "");
  if (job.empty()) return {};
  std::vector<std::pair<std::string, std::string>> found = {
      {"slurm_job_id", variable("SLURM_ARRAY_JOB_ID", job.c_str())}};
  const std::string task = variable("SLURM_ARRAY_TASK_ID", "");
  if (!task.empty()) found.emplace_back("array_task", task);
  found.emplace_back("restart", variable("SLURM_RESTART_COUNT", "0"));
  return found;
}

RunInfo describe_run(World& world, const DeviceInfo& device, std::string command,
                     std::string experiment) {
  RunInfo run{
      std::move(command), std::move(experiment), {}, {}, utc_ms(std::chrono::system_clock::now())};
  run.environment = {
      {"mpi", world.library()},
      {"hdf5", hdf5_version()},
      {"blas", openblas_get_config == nullptr ? "unknown" : openblas_get_config()},
      {"compiler", PACELINE_COMPILER},
      {"kernel", kernel()},
      {"os", value_in("/etc/os-release", "PRETTY_NAME", '=')},
      {"cpu", cpu_model()},
  };
  if (const std::string older = older_blas_kernels(); !older.empty()) {
    run.environment.emplace_back("blas_warning", older);
  }
  for (const auto& version : device.versions) run.environment.push_back(version);
  for (auto& variable : kept_variables()) run.environment.push_back(std::move(variable));

  const std::string of_main_thread = value_in("/proc/self/status", "Cpus_allowed_list", ':');
  RankInfo mine{world.rank(),       world.host(),   cpu_model(),
                world.local_rank(), of_main_thread, device};
  const nlohmann::json told = RankFields(fields_of(mine));
  for (const std::string& text :
       world.gather(told.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))) {
    fields_of(run.ranks.emplace_back()) = nlohmann::json::parse(text).get<RankFields>();
  }
  return run;
}

}  // namespace paceline
