#include "experiments/collectives/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "core/screen.h"
#include "harness/cache_flush.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// The reason why mpi does not support a case; empty if it does, and for nccl.
std::string refusal_of_mpi(const CollectiveCase& c) {
  if (c.backend != BackendKind::mpi) return "";
  if (c.cadence == Cadence::graph) {
    return "--cadence: graph needs nccl; use barrier or back-to-back with mpi";
  }
  if (c.is_registered()) return "--registration: symmetric needs nccl; use none with mpi";
  return "";
}

// MPI takes the element count of these operations as an int per rank, and Open MPI multiplies it by
// the number of ranks in an int.
void check_count(const CollectiveCase& c) {
  const bool counted_whole =
      c.op->name == "all_gather" || c.op->name == "all_to_all" || c.op->name == "send_recv";
  const std::int64_t elements = c.message_bytes() / c.element_bytes();
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (c.backend != BackendKind::mpi || !counted_whole || elements <= most) return;
  throw UsageError(fmt::format("--bytes: {} through mpi takes at most {} elements, not {}",
                               c.op->name, most, elements));
}

// A row of the tables of --fit: the factors of the sweep as the summary has them, then `figures`.
Row with_factors(const Case& sweep, const Row& figures) {
  Row row;
  for (const char* name : {"backend", "op", "dtype", "redop", "in_place", "registration", "cadence",
                           "cache", "ranks"}) {
    row.push_back({name, sweep.has(name) ? sweep.at(name) : std::string()});
  }
  row.insert(row.end(), figures.begin(), figures.end());
  return row;
}

// "all_reduce (mpi, float32, --ranks 2)"
std::string sweep_text(const Case& sweep) {
  return fmt::format("{} ({}, {}, --ranks {})", to_text(sweep.at("op")),
                     to_text(sweep.at("backend")), to_text(sweep.at("dtype")),
                     to_text(sweep.at("ranks")));
}

class CollectivesExperiment final : public ExperimentOf<CollectiveCase> {
 public:
  CollectivesExperiment(const CollectivesOptions& options, World& world,
                        std::vector<Backend> backends)
      : options_(options), world_(world), backends_(std::move(backends)) {
    // If nccl is swept too, cases that only nccl supports are left out for mpi. If mpi is the only
    // backend, check() refuses them.
    const auto is_available = [&](const CollectiveCase& c) {
      return !options.all_backends || backend_of(c).ranks > 0;
    };
    const auto all = options.factors.cases([](CollectiveCase&) { return true; });
    const bool nccl = std::any_of(all.begin(), all.end(), [&](const CollectiveCase& c) {
      return c.backend == BackendKind::nccl && is_available(c);
    });
    set_cases(options.factors.factors(), options.factors.cases([&](CollectiveCase& c) {
      if (c.ranks == 0) c.ranks = world.size();
      return is_available(c) && (!nccl || refusal_of_mpi(c).empty());
    }));
  }

  [[nodiscard]] std::string name() const override { return "collectives"; }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override {
    std::vector<ShownColumn> shown = {{"algbw_bytes_per_s", "algbw"},
                                      {"busbw_bytes_per_s", "busbw"},
                                      {"link_share", "link share"},
                                      {"slowest_rank", "slowest"},
                                      {"wrong_elements", "wrong"}};
    for (std::size_t i = 0; i < case_count(); ++i) {
      const CollectiveCase& c = case_at(i);
      if (c.message_bytes() == c.bytes.bytes) continue;
      shown.insert(shown.begin(), {"message_bytes", "message"});
      break;
    }
    return shown;
  }
  [[nodiscard]] std::string notes() const override {
    return "algbw: bytes / time; busbw: algbw times 2 (n - 1) / n (all_reduce), (n - 1) / n "
           "(reduce_scatter, all_gather, all_to_all), 1 (others). link share: busbw over the "
           "highest rate at which a rank receives: in a ring of send_recv or a broadcast, the "
           "best of three sizes";
  }
  // "fit": latency and bandwidth of each set of cases that differ only in size. "fit_residuals":
  // each case's measured and fitted time. Messages of 0 bytes are left out.
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<SummaryRow>& rows) const override {
    if (!options_.fit) return {};
    std::vector<std::pair<Case, std::vector<TimedSize>>> sweeps;  // cases without a size
    for (const SummaryRow& row : rows) {
      if (value_in<std::string>(row.columns, "status") != "ok") continue;
      const auto bytes = value_in<double>(row.columns, "message_bytes");
      if (bytes == 0) continue;  // nothing is sent
      Case c = cases().at(row.index);
      c.set("bytes", std::int64_t{0});
      auto sweep = std::find_if(sweeps.begin(), sweeps.end(),
                                [&](const auto& other) { return other.first == c; });
      if (sweep == sweeps.end()) sweep = sweeps.insert(sweep, {c, {}});
      sweep->second.push_back(
          {.bytes = bytes, .seconds = value_in<double>(row.columns, "time_median_s")});
    }
    TableRows fits("fit");
    TableRows residuals("fit_residuals");
    for (const auto& [c, points] : sweeps) {
      const LatencyBandwidth fit = fit_latency_bandwidth(points);
      if (std::isnan(fit.latency)) {
        write_to(stderr, "warning: {} has no fit: fewer than two of its sizes were measured\n",
                 sweep_text(c));
        continue;
      }
      if (std::isinf(fit.bandwidth) && std::get<std::int64_t>(c.at("ranks")) > 1) {
        write_to(stderr,
                 "warning: the times of {} do not grow with the bytes; measure more or "
                 "larger sizes\n",
                 sweep_text(c));
      }
      fits.add(with_factors(c, {{"latency_s", fit.latency},
                                {"bandwidth_bytes_per_s", fit.bandwidth},
                                {"worst_relative_error", fit.worst_error}}));
      for (const TimedSize& p : points) {
        const double fitted = fit.latency + p.bytes / fit.bandwidth;
        residuals.add(with_factors(c, {{"message_bytes", p.bytes},
                                       {"time_s", p.seconds},
                                       {"fitted_s", fitted},
                                       {"relative_error", fitted / p.seconds - 1}}));
      }
    }
    if (fits.empty()) return {};
    return {fits.take(), residuals.take()};
  }

 private:
  // The subgroup of the ranks that take part; empty on the other ranks.
  struct Members {
    std::unique_ptr<World> world;
    std::map<BackendKind, std::unique_ptr<Communicator>> communicators;
    std::map<BackendKind, double> link_ceilings;  // bytes/s
  };

  [[nodiscard]] Prediction prediction(const CollectiveCase& c) const override {
    const auto bytes = static_cast<double>(c.message_bytes());
    const double n = c.ranks;
    const double set =
        c.is_in_place() ? 1 : (c.op->send_is_whole ? 1 : 1 / n) + (c.op->recv_is_whole ? 1 : 1 / n);
    const Backend& backend = backend_of(c);
    const Device* const device = backend.device.get();
    return {.flops = 0,
            .bytes = bytes * c.op->bus.of(n),
            .memory_bytes = bytes * set * static_cast<double>(buffer_sets(c, cache_bytes(device))),
            .flush_bytes = static_cast<double>(flush_bytes(c.cache, device))};
  }
  void check(const CollectiveCase& c) const override {
    check_sampling(c);
    if (options_.fit) check_fit(c);
    if (c.ranks > world_.size() && options_.factors.by_name("--ranks")) {
      throw UsageError(
          fmt::format("--ranks: {0} ranks are needed, {1} were started; use mpirun -np {0}",
                      c.ranks, world_.size()));
    }
    const std::string reason = reason_to_skip(c);
    if (!reason.empty() && options_.factors.by_name("--backend") && c.ranks <= world_.size()) {
      throw EnvironmentError(fmt::format("--backend: {}", reason));
    }
    if (c.is_registered() && world_.local_size() < c.ranks) {
      throw EnvironmentError("--registration: symmetric windows need all ranks on one node");
    }
    check_count(c);
    if (const std::string refusal = refusal_of_mpi(c); !refusal.empty()) throw UsageError(refusal);
  }
  // A value that was named in an option is not skipped: check() refuses it.
  [[nodiscard]] std::string reason_to_skip(const CollectiveCase& c) const override {
    const Backend& backend = backend_of(c);
    if (c.ranks > world_.size()) {
      return fmt::format("needs {} ranks; this launch has {}", c.ranks, world_.size());
    }
    if (c.ranks > backend.ranks) {
      return fmt::format("{}; {} can use {} of the {} ranks", backend.limit_reason,
                         name_of(backend.kind), backend.ranks, c.ranks);
    }
    return {};
  }
  [[nodiscard]] std::size_t device_memory(const CollectiveCase& c) const override {
    return backend_of(c).device->info().memory_bytes;
  }
  [[nodiscard]] CaseRecord measure(const CollectiveCase& c, Progress& progress) override {
    if (auto skipped = skipped_case(world_, reason_to_skip(c))) return *std::move(skipped);
    CaseRecord record;
    Members& members = members_of(c.ranks);
    std::optional<Error> failed;
    if (members.world) {
      try {
        record = measure_among(members, c, progress);
      } catch (const Error& error) {
        // These errors end the launch. Others are thrown below on all ranks, including the idle
        // ones.
        if (error.code() == ExitCode::internal || error.code() == ExitCode::collective) throw;
        failed.emplace(error);
      }
      backend_of(c).device->trim();
    }
    world_.wait_idle();
    collectively(world_, [&] {
      if (failed) throw *failed;
    });
    record.status = world_.agree(record.status);
    return record;
  }

  [[nodiscard]] const Backend& backend_of(const CollectiveCase& c) const {
    return *std::find_if(backends_.begin(), backends_.end(),
                         [&](const Backend& b) { return b.kind == c.backend; });
  }
  // Throws UsageError if the sweep over --bytes that `c` is part of cannot be fitted.
  void check_fit(const CollectiveCase& c) const {
    std::set<std::int64_t> sizes;
    for (std::size_t i = 0; i < case_count(); ++i) {
      CollectiveCase other = case_at(i);
      const std::int64_t size = other.message_bytes();
      other.bytes = c.bytes;
      if (other == c && size > 0) sizes.insert(size);
    }
    if (sizes.size() >= 2) return;
    throw UsageError(
        fmt::format("--fit: needs at least two message sizes above 0, in multiples of {} bytes "
                    "({}, {}, --ranks {}); give --bytes more values",
                    c.message_unit(), c.op->name, name_of(c.dtype), c.ranks));
  }
  // Collective over all ranks.
  [[nodiscard]] Members& members_of(int ranks) {
    const auto [it, is_new] = members_.try_emplace(ranks);
    if (is_new) it->second.world = world_.split(world_.rank() < ranks ? 0 : -1, 0);
    return it->second;
  }
  // Collective over members.world.
  [[nodiscard]] CaseRecord measure_among(Members& members, const CollectiveCase& c,
                                         Progress& progress) {
    CaseRecord record;
    World& world = *members.world;
    const Backend& backend = backend_of(c);
    std::unique_ptr<Communicator>& communicator = members.communicators[c.backend];
    const auto make = [&] {
      if (!communicator) communicator = backend.make_communicator(world);
    };
    const Prediction predicted = prediction(c);
    if (!fits_in_memory(world, record, predicted, make)) {
      communicator.reset();  // some ranks may have made one; the next case makes it on all ranks
      return record;
    }
    if (members.link_ceilings.count(c.backend) == 0) {
      members.link_ceilings[c.backend] = link_ceiling(*backend.device, world, *communicator);
    }
    const auto run = collective_run(c, world, *backend.device, *communicator,
                                    members.link_ceilings.at(c.backend));
    record = measure_case(world, *backend.device, *run, c, predicted, progress);
    if (c.ranks == 1 && !record.samples.empty()) {
      record.warnings.push_back({warning::one_rank, "one rank exchanges nothing"});
    }
    return record;
  }

  const CollectivesOptions& options_;
  World& world_;
  std::vector<Backend> backends_;
  std::map<int, Members> members_;  // by number of ranks
};

}  // namespace

std::unique_ptr<Experiment> collectives_experiment(const CollectivesOptions& options, World& world,
                                                   std::vector<Backend> backends) {
  return std::make_unique<CollectivesExperiment>(options, world, std::move(backends));
}

}  // namespace paceline
