#include "experiments/collectives/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace paceline {

namespace {

// Nothing for nccl, and for what mpi does.
std::string refusal_of_mpi(const Case& c) {
  if (c.text("backend") != "mpi") return "";
  if (c.text("cadence") == "graph") {
    return "--cadence: graph is nccl's; use barrier or back-to-back with mpi";
  }
  if (c.text("registration") != "none")
    return "--registration: only nccl registers memory; use none";
  return "";
}

}  // namespace

CollectivesExperiment::CollectivesExperiment(const Options& options, World& world,
                                             std::vector<Backend> backends)
    : options_(options), world_(world), backends_(std::move(backends)) {}

std::vector<std::string> CollectivesExperiment::naming_factors() const {
  return {"backend",  "op",    "bytes",        "dtype",   "redop",
          "in_place", "ranks", "registration", "cadence", "cache"};
}

std::vector<Case> CollectivesExperiment::cases() const {
  const CollectiveOptions& o = options_.collectives;
  std::vector<std::string> backends = o.backends;
  if (backends.empty()) {
    for (const Backend& b : backends_) {
      if (b.ranks > 0) backends.push_back(b.name);
    }
  }
  std::vector<std::int64_t> ranks = o.ranks;
  if (ranks.empty()) ranks = {world_.size()};
  Grid grid;
  grid.axis("backend", backends);
  grid.axis("op", o.ops);
  grid.axis("ranks", ranks);
  grid.axis("dtype", o.dtypes);
  grid.axis("redop", o.redops);
  grid.axis("in_place", o.in_place);
  grid.axis("registration", o.registrations);
  grid.axis("cadence", o.cadences);
  grid.axis("cache", o.caches);
  grid.axis("bytes", o.bytes);
  std::vector<Case> cases = grid.cases();
  // mpi alone is told by validate() what is nccl's.
  if (std::find(backends.begin(), backends.end(), "nccl") != backends.end()) {
    std::erase_if(cases, [](const Case& c) { return !refusal_of_mpi(c).empty(); });
  }
  for (Case& c : cases) {
    const Collective& op = collective_named(c.text("op"));
    if (!op.reduces) c.set("redop", std::string("none"));
    if (!op.in_place) c.set("in_place", std::string("no"));
    if (!op.out_of_place) c.set("in_place", std::string("yes"));
    set_sampling(c, options_.run.sampler);
  }
  return without_repeats(std::move(cases));
}

const Backend& CollectivesExperiment::backend_of(const Case& c) const {
  return *std::find_if(backends_.begin(), backends_.end(),
                       [&](const Backend& b) { return b.name == c.text("backend"); });
}

// Of a case that this launch cannot run; validate() has refused what was asked for by name.
std::string CollectivesExperiment::reason_to_skip(const Case& c) const {
  const std::int64_t ranks = c.integer("ranks");
  const Backend& backend = backend_of(c);
  if (ranks > world_.size()) {
    return fmt::format("needs {} ranks; this launch has {}", ranks, world_.size());
  }
  if (ranks > backend.ranks) {
    return fmt::format("{}; {} can have {} of the {} ranks", backend.lack, backend.name,
                       backend.ranks, ranks);
  }
  return {};
}

Prediction CollectivesExperiment::predict(const Case& c) const {
  const Collective& op = collective_named(c.text("op"));
  const auto bytes = static_cast<double>(message_bytes(c));
  const auto n = static_cast<double>(c.integer("ranks"));
  const double set = c.text("in_place") == "yes"
                         ? 1
                         : (op.send_is_whole ? 1 : 1 / n) + (op.recv_is_whole ? 1 : 1 / n);
  return {.flops = 0,
          .bytes = bytes * op.bus_factor(n),
          .memory_bytes = bytes * set * static_cast<double>(buffer_sets(c)) +
                          static_cast<double>(flush_bytes(c))};
}

void CollectivesExperiment::validate(const Case& c) const {
  const CollectiveOptions& o = options_.collectives;
  if (c.integer("bytes") % element_bytes(c) != 0) {
    throw UsageError(fmt::format("--bytes: {} is no multiple of the {} bytes of {}",
                                 c.integer("bytes"), element_bytes(c), c.text("dtype")));
  }
  if (c.integer("ranks") > world_.size() && o.ranks_given) {
    throw UsageError(
        fmt::format("--ranks: {} are more than the {} that were started; use mpirun "
                    "-np {}",
                    c.integer("ranks"), world_.size(), c.integer("ranks")));
  }
  const std::string reason = reason_to_skip(c);
  if (!reason.empty() && o.backends_given && c.integer("ranks") <= world_.size()) {
    throw EnvironmentError(fmt::format("--backend: {}", reason));
  }
  if (c.text("registration") != "none" && world_.local_size() < c.integer("ranks")) {
    throw EnvironmentError("--registration: symmetric windows want all ranks on one node");
  }
  check_count(c);
  if (const std::string refusal = refusal_of_mpi(c); !refusal.empty()) throw UsageError(refusal);
}

// MPI counts the elements of these in an int, which Open MPI multiplies by the ranks.
void CollectivesExperiment::check_count(const Case& c) {
  const std::string& op = c.text("op");
  const bool whole = op == "all_gather" || op == "all_to_all" || op == "send_recv";
  const std::int64_t elements = message_bytes(c) / element_bytes(c);
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (c.text("backend") != "mpi" || !whole || elements <= most) return;
  throw UsageError(
      fmt::format("--bytes: {} through mpi takes at most {} elements, not {}", op, most, elements));
}

CollectivesExperiment::Members& CollectivesExperiment::members_of(const Backend& backend,
                                                                  int ranks) {
  const auto [it, is_new] = members_.try_emplace(ranks);
  Members& members = it->second;
  if (is_new) members.world = world_.split(world_.rank() < ranks ? 0 : -1, 0);
  if (members.world && members.communicators.count(backend.name) == 0) {
    members.communicators[backend.name] = backend.make_communicator(*members.world);
  }
  return members;
}

CaseRecord CollectivesExperiment::run(const Case& c, Progress& progress) {
  CaseRecord record;
  record.factors = c;
  record.reason = reason_to_skip(c);
  if (!record.reason.empty()) {
    record.status = Status::skipped;
    return record;
  }
  const Backend& backend = backend_of(c);
  Members& members = members_of(backend, static_cast<int>(c.integer("ranks")));
  std::optional<Error> failed;
  if (members.world) {
    try {
      record = measure(c, backend, members, progress);
    } catch (const Error& error) {
      // These end the launch; of others the ranks that sleep are told.
      if (error.code() == ExitCode::internal || error.code() == ExitCode::collective) throw;
      failed.emplace(error);
    }
    backend.device->trim();
  }
  world_.wait_idle();
  collectively(world_, [&] {
    if (failed) throw *failed;
  });
  record.status = world_.agree(record.status);
  return record;
}

}  // namespace paceline
