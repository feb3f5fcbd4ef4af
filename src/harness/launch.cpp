#include "harness/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <thread>

#include "harness/error_report.h"

namespace paceline {

namespace {

using Json = nlohmann::json;

constexpr std::string_view may_differ = "--memory-limit";

std::string to_json(const CommandLine& line) {
  const Json json = {
      {"version", line.version}, {"experiment", line.experiment}, {"options", line.options}};
  // Arguments may have bytes that are not UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CommandLine from_json(const std::string& text) {
  const Json json = Json::parse(text);
  return {.version = json["version"],
          .experiment = json["experiment"],
          .options = json["options"].get<GivenOptions>()};
}

using RanksByValue = std::map<std::string, std::vector<int>>;

RanksByValue group(const std::vector<std::string>& values) {
  RanksByValue groups;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    groups[values[rank]].push_back(static_cast<int>(rank));
  }
  return groups;
}

template <class F>
RanksByValue group(const std::vector<CommandLine>& lines, F value_of) {
  std::vector<std::string> values;
  for (const CommandLine& line : lines) values.push_back(value_of(line));
  return group(values);
}

// "16 (rank 0), 64 (ranks 1, 2)", ordered by the lowest rank of each group.
std::string values_by_rank(const RanksByValue& groups) {
  std::vector<std::pair<std::vector<int>, std::string>> ordered;
  for (const auto& [value, ranks] : groups) ordered.emplace_back(ranks, value);
  std::sort(ordered.begin(), ordered.end());
  std::string text;
  for (const auto& [ranks, value] : ordered) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", value, ranks_text(ranks));
  }
  return text;
}

// "what: a (rank 0), b (ranks 1, 2); advice"; nullopt if all ranks have the same value.
std::optional<Error> difference(std::string_view what, const RanksByValue& groups,
                                std::string_view advice) {
  if (groups.size() < 2) return std::nullopt;
  return UsageError(fmt::format("{}: {}; {}", what, values_by_rank(groups), advice));
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

}  // namespace

std::optional<int> launched_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* size = std::getenv(name)) return std::atoi(size);
  }
  return std::nullopt;
}

bool is_only_process() {
  if (const std::optional<int> processes = launched_processes()) return processes == 1;
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

int report_once(const Error& error) {
  const int rank = launched_rank().value_or(0);
  if (rank == 0) return report(error);
  // Of several that fail without rank 0, the first ends the rest.
  const std::chrono::seconds turn(started_by_mpirun() ? 2 * std::min(rank, 10) : 1);
  std::this_thread::sleep_for(turn);
  if (!started_by_mpirun()) return static_cast<int>(error.code());
  return report(Error(error.code(), fmt::format("{} (rank {})", error.what(), rank)));
}

std::optional<Error> disagreement(const std::vector<CommandLine>& lines) {
  const auto version = [](const CommandLine& line) { return line.version; };
  const auto experiment = [](const CommandLine& line) { return line.experiment; };
  if (auto found = difference("program version", group(lines, version),
                              "start the same program on every rank")) {
    return found;
  }
  if (auto found = difference("experiment", group(lines, experiment),
                              "give every rank the same command line")) {
    return found;
  }
  std::set<std::string> names;
  for (const CommandLine& line : lines) {
    for (const auto& [name, value] : line.options) names.insert(name);
  }
  names.erase(std::string(may_differ));
  std::string differences;
  for (const std::string& name : names) {
    const RanksByValue values = group(lines, [&](const CommandLine& line) {
      const auto it = line.options.find(name);
      return it == line.options.end() ? "not given" : it->second;
    });
    if (values.size() > 1) differences += fmt::format("{}: {}; ", name, values_by_rank(values));
  }
  if (differences.empty()) return std::nullopt;
  return UsageError(differences + "give every rank the same options");
}

void require_same(World& world, std::string_view what, const std::string& mine,
                  std::string_view advice) {
  const RanksByValue groups = group(world.gather(mine));  // empty on ranks other than 0
  collectively(world, [&] {
    if (auto found = difference(what, groups, advice)) throw Error(*found);
  });
}

void require_same_device(World& world, const std::string& name) {
  const std::string first = world.broadcast(name, 0);
  require_same(world, "device", name.empty() ? first : name,
               "the slowest would determine the times; use ranks with the same device");
}

void require_same_command_line(World& world, const CommandLine& mine) {
  std::vector<CommandLine> lines;  // empty on ranks other than 0
  for (const std::string& text : world.gather(to_json(mine))) lines.push_back(from_json(text));
  collectively(world, [&] {
    if (auto found = disagreement(lines)) throw Error(*found);
  });
}

}  // namespace paceline
