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

namespace paceline {

namespace {

using Json = nlohmann::json;

constexpr std::string_view may_differ = "--memory-limit";

std::string to_json(const CommandLine& line) {
  Json json = {{"version", line.version},
               {"experiment", line.experiment},
               {"options", line.options},
               {"code", 0}};
  if (line.refusal) {
    json["code"] = static_cast<int>(line.refusal->code());
    json["refusal"] = line.refusal->what();
  }
  // Arguments may have bytes that are not UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CommandLine from_json(const std::string& text) {
  const Json json = Json::parse(text);
  CommandLine line{.version = json["version"],
                   .experiment = json["experiment"],
                   .options = json["options"].get<GivenOptions>(),
                   .refusal = {}};
  if (json["code"] != 0) {
    line.refusal.emplace(static_cast<ExitCode>(json["code"].get<int>()),
                         json["refusal"].get<std::string>());
  }
  return line;
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

// The refusal with the highest exit code; of several, that of the lowest rank.
std::optional<Error> worst_refusal(const std::vector<CommandLine>& lines) {
  const Error* worst = nullptr;
  for (const CommandLine& line : lines) {
    if (line.refusal && (worst == nullptr || line.refusal->code() > worst->code())) {
      worst = &*line.refusal;
    }
  }
  if (worst == nullptr) return std::nullopt;
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    const std::optional<Error>& refusal = lines[rank].refusal;
    if (refusal && std::string_view(refusal->what()) == worst->what()) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  const std::string where =
      ranks.size() == lines.size() ? "" : fmt::format(" ({})", ranks_text(ranks));
  return Error(worst->code(), worst->what() + where);
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
  // The mpirun of Open MPI and of MPICH starts its daemons with srun, and ranks inherit their
  // environment.
  const bool started_by_mpirun =
      std::getenv("OMPI_COMM_WORLD_LOCAL_RANK") || std::getenv("MPI_LOCALRANKID");
  if (tasks == nullptr || started_by_mpirun || std::atoi(tasks) == ranks) return;
  throw EnvironmentError(fmt::format(
      "srun started {} tasks, of which MPI sees {}: use srun --mpi=pmix (srun --mpi=list "
      "shows the plug-ins) or mpirun within the job",
      tasks, ranks));
}

bool reports_errors() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return std::string_view(rank) == "0";
  }
  return true;
}

int wait_for_error_report(ExitCode code) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return static_cast<int>(code);
}

std::optional<Error> disagreement(const std::vector<CommandLine>& lines) {
  const auto version = [](const CommandLine& line) { return line.version; };
  const auto experiment = [](const CommandLine& line) { return line.experiment; };
  if (auto found = difference("program version", group(lines, version),
                              "start the same program on every rank")) {
    return found;
  }
  if (auto refusal = worst_refusal(lines)) return refusal;
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
  std::vector<CommandLine> lines;
  for (const std::string& text : world.gather(to_json(mine))) lines.push_back(from_json(text));
  const std::optional<Error> found = disagreement(lines);
  const int code = found ? static_cast<int>(found->code()) : 0;
  const int agreed = static_cast<int>(world.max(code));
  if (agreed == 0) return;
  throw Error(static_cast<ExitCode>(agreed), world.broadcast(found ? found->what() : "", 0));
}

}  // namespace paceline
