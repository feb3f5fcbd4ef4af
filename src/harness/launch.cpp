#include "harness/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/early_end.h"

namespace paceline {

namespace {

using Json = nlohmann::json;

// Throws UsageError, "what: 16 (rank 0), 64 (ranks 1, 2); advice", unless all ranks' values are
// equal. Values are ordered by their lowest ranks.
void refuse_differences(std::string_view what, const std::vector<std::string>& values,
                        std::string_view advice) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    auto group = std::ranges::find(groups, values[rank], [](const auto& g) { return g.first; });
    if (group == groups.end()) group = groups.insert(group, {values[rank], {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (groups.size() < 2) return;
  std::vector<std::string> texts;
  for (const auto& [value, ranks] : groups) {
    texts.push_back(fmt::format("{} ({})", value, ranks_text(ranks)));
  }
  throw UsageError(fmt::format("{}: {}; {}", what, fmt::join(texts, ", "), advice));
}

// Its rank by the launcher's variables; nullopt without a launcher.
std::optional<int> launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID",
                           "MV2_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  }
  return std::nullopt;
}

// The mpirun of Open MPI or of MPICH. Both end all processes when one fails; srun does only with
// --kill-on-bad-exit. Both start their daemons with srun, whose environment ranks inherit.
bool started_by_mpirun() {
  return std::getenv("OMPI_COMM_WORLD_LOCAL_RANK") || std::getenv("MPI_LOCALRANKID");
}

std::string working_folder() {
  std::error_code gone;
  std::string folder = std::filesystem::current_path(gone).string();
  if (gone) throw EnvironmentError("the working folder no longer exists; cd to one that does");
  return folder;
}

}  // namespace

bool is_only_process() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* size = std::getenv(name)) return std::atoi(size) == 1;
  }
  // Launchers that do not state the number of processes.
  constexpr std::array names = {"PMIX_RANK", "PMI_RANK", "PMI_FD", "PALS_RANKID",
                                "MV2_COMM_WORLD_RANK"};
  return std::ranges::none_of(names, [](const char* name) { return std::getenv(name) != nullptr; });
}

void require_all_tasks(int ranks) {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr || started_by_mpirun() || std::atoi(tasks) == ranks) return;
  throw EnvironmentError(fmt::format(
      "srun started {} tasks, of which MPI sees {}: use srun --mpi=pmix (srun --mpi=list "
      "shows the plug-ins) or mpirun within the job",
      tasks, ranks));
}

bool reports_errors() { return launched_rank().value_or(0) == 0; }

ExitCode report_once(const Error& error) {
  const int rank = launched_rank().value_or(0);
  if (rank == 0) return report(error);
  // Of several that fail without rank 0, the first ends the rest.
  const std::chrono::seconds turn(started_by_mpirun() ? 2 * std::min(rank, 10) : 1);
  std::this_thread::sleep_for(turn);
  if (!started_by_mpirun()) return error.code();
  return report(Error(error.code(), fmt::format("{} (rank {})", error.what(), rank)));
}

void require_same(World& world, std::string_view what, const std::string& mine,
                  std::string_view advice) {
  const std::vector<std::string> values = world.gather(mine);  // empty on ranks other than 0
  collectively(world, [&] { refuse_differences(what, values, advice); });
}

void require_same_device(World& world, const std::string& name) {
  const std::string first = world.broadcast(name, 0);
  require_same(world, "device", name.empty() ? first : name,
               "the slowest would determine the times; use ranks with the same device");
}

void require_same_command_line(World& world, const CommandLine& mine) {
  require_same(world, "program version", mine.version, "start the same program on every rank");
  require_same(world, "experiment", mine.experiment, "give every rank the same command line");
  Json own = mine.options;
  own.erase("--memory-limit");
  // Arguments may have bytes that are not UTF-8.
  const std::string text = own.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<Json> all;  // empty on ranks other than 0
  for (const std::string& one : world.gather(text)) all.push_back(Json::parse(one));
  collectively(world, [&] {
    const auto other =
        std::ranges::find_if(all, [&](const Json& one) { return one != all.front(); });
    if (other == all.end()) return;
    Json options = all.front();
    options.update(*other);
    for (const auto& [name, _] : options.items()) {
      std::vector<std::string> values;
      for (const Json& one : all) values.push_back(one.value(name, "not given"));
      refuse_differences(name, values, "give every rank the same options");
    }
  });
}

void require_same_launch(World& world, const CommandLine& mine) {
  require_same_command_line(world, mine);
  require_same(world, "MPI library", world.library(), "use the same one on every rank");
  require_all_tasks(world.size());
  std::string folder;
  collectively(world, [&] { folder = working_folder(); });
  require_same(world, "working folder", folder, "start every rank in the same folder");
}

}  // namespace paceline
