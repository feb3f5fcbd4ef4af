#include "experiments/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "core/clock.h"
#include "core/units.h"
#include "experiments/gather.h"
#include "experiments/stop_signal.h"

namespace paceline {

namespace {

constexpr int launches_together = 20;  // of a back-to-back sample

Dtype dtype_named(const std::string& name) {
  for (const Dtype d : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32}) {
    if (name_of(d) == name) return d;
  }
  throw InternalError("'" + name + "' is no dtype");
}

std::int64_t element_bytes(const Case& c) {
  return static_cast<std::int64_t>(size_of(dtype_named(c.text("dtype"))));
}

ReduceOp reduction_of(const Case& c) {
  return collective_named(c.text("op")).reduces ? reduce_op_named(c.text("redop")) : ReduceOp::sum;
}

std::vector<Value> values_of(const auto& list) {
  std::vector<Value> v;
  for (const auto& x : list) v.emplace_back(x);
  return v;
}

// Bytes per second that each rank sends of `elements` floats, the best of a few times. Collective.
double ring_bandwidth(const Backend& backend, World& world, Communicator& communicator,
                      std::int64_t elements) {
  constexpr int repetitions = 5;
  const Collective& op = collective_named("send_recv");
  const CollectiveBuffers buffers(*backend.device, op, Dtype::f32, elements, world.rank(),
                                  world.size(), false);
  buffers.fill(Pattern(world.size(), false, ReduceOp::sum, 0));
  Stream& stream = backend.device->communication_stream();
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    world.barrier();
    const EventPtr begin = stream.record();
    (void)op.start(communicator, buffers.call());
    const EventPtr end = stream.record();
    backend.device->synchronize();
    shortest = std::min(shortest, world.max(end->seconds_since(*begin)));
  }
  return static_cast<double>(sizeof(float)) * static_cast<double>(elements) / shortest;
}

}  // namespace

CollectivesExperiment::CollectivesExperiment(const Options& options, World& world,
                                             std::vector<Backend> backends)
    : options_(options), world_(world), backends_(std::move(backends)) {}

std::int64_t CollectivesExperiment::message_bytes(const Case& c) {
  const std::int64_t bytes = c.integer("bytes");
  return bytes - bytes % (c.integer("ranks") * element_bytes(c));
}

std::vector<std::string> CollectivesExperiment::naming_factors() const {
  return {"backend", "op", "bytes", "dtype", "redop", "in_place", "ranks", "cadence", "cache"};
}

std::vector<Case> CollectivesExperiment::cases() const {
  const CollectiveOptions& o = options_.collectives;
  std::vector<std::string> backends = o.backends;
  if (backends.empty()) {
    for (const Backend& b : backends_) backends.push_back(b.name);
  }
  std::vector<std::int64_t> ranks = o.ranks;
  if (ranks.empty()) ranks = {world_.size()};
  Grid grid;
  grid.axis("backend", values_of(backends));
  grid.axis("op", values_of(o.ops));
  grid.axis("ranks", values_of(ranks));
  grid.axis("dtype", values_of(o.dtypes));
  grid.axis("redop", values_of(o.redops));
  grid.axis("in_place", values_of(o.in_place));
  grid.axis("cadence", values_of(o.cadences));
  grid.axis("cache", values_of(o.caches));
  grid.axis("bytes", values_of(o.bytes));
  std::vector<Case> cases = grid.cases();
  for (Case& c : cases) {
    const Collective& op = collective_named(c.text("op"));
    if (!op.reduces) c.set("redop", std::string("none"));
    if (!op.in_place) c.set("in_place", std::string("no"));
    if (!op.out_of_place) c.set("in_place", std::string("yes"));
    const SamplerConfig& s = options_.run.sampler;
    c.set("warmup", std::int64_t{s.warmup});
    c.set("steps", std::int64_t{s.steps});
    c.set("until_ci", s.until_ci);
    c.set("max_steps", std::int64_t{s.max_steps});
  }
  return without_repeats(std::move(cases));
}

const Backend* CollectivesExperiment::backend_named(const std::string& name) const {
  const auto it = std::find_if(backends_.begin(), backends_.end(),
                               [&](const Backend& b) { return b.name == name; });
  return it == backends_.end() ? nullptr : &*it;
}

// Of a preset's case that this launch cannot run; nothing for what was asked for by name.
std::string CollectivesExperiment::reason_to_skip(const Case& c) const {
  const std::int64_t ranks = c.integer("ranks");
  if (ranks > world_.size()) {
    return fmt::format("needs {} ranks; this launch has {}", ranks, world_.size());
  }
  if (backend_named(c.text("backend")) == nullptr) {
    return fmt::format("no {} backend here", c.text("backend"));
  }
  return {};
}

Prediction CollectivesExperiment::predict(const Case& c) const {
  const Collective& op = collective_named(c.text("op"));
  const auto bytes = static_cast<double>(c.integer("bytes"));
  const auto n = static_cast<double>(c.integer("ranks"));
  const double buffers = c.text("in_place") == "yes"
                             ? 1
                             : (op.send_is_whole ? 1 : 1 / n) + (op.recv_is_whole ? 1 : 1 / n);
  return {.flops = 0, .bytes = bytes * op.bus_factor(n), .memory_bytes = bytes * buffers};
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
  if (backend_named(c.text("backend")) == nullptr && o.backends_given) {
    throw EnvironmentError(
        fmt::format("--backend: {} needs a GPU per rank, and is not built yet", c.text("backend")));
  }
  if (c.text("cadence") == "graph" && c.text("backend") == "mpi") {
    throw UsageError("--cadence: graph is nccl's; use barrier or back-to-back with mpi");
  }
}

CollectivesExperiment::Members& CollectivesExperiment::members_of(const Backend& backend,
                                                                  int ranks) {
  const auto [it, is_new] = members_.try_emplace(ranks);
  Members& members = it->second;
  if (is_new) members.world = world_.first_ranks(ranks);
  if (members.communicators.count(backend.name) == 0) {
    members.communicators[backend.name] = backend.communicator->first_ranks(ranks);
  }
  return members;
}

CaseRecord CollectivesExperiment::run(const Case& c, RunContext& context) {
  CaseRecord record;
  record.factors = c;
  record.reason = reason_to_skip(c);
  if (!record.reason.empty()) {
    record.status = Status::skipped;
    return record;
  }
  const Backend& backend = *backend_named(c.text("backend"));
  Members& members = members_of(backend, static_cast<int>(c.integer("ranks")));
  std::optional<StoppedError> stopped;
  if (members.world) {
    try {
      record = measure(c, backend, members, context);
    } catch (const StoppedError& error) {
      stopped.emplace(error.what());
      record.status = Status::stopped;
    }
  }
  world_.wait_idle();
  record.status = world_.agree(record.status);
  if (record.status == Status::stopped) {
    throw stopped ? *stopped : StoppedError("stopped by a signal");
  }
  return record;
}

CaseRecord CollectivesExperiment::measure(const Case& c, const Backend& backend, Members& members,
                                          RunContext& context) {
  World& world = *members.world;
  Communicator& communicator = *members.communicators.at(backend.name);
  CaseRecord record;
  record.factors = c;
  const double ceiling = link_ceiling(backend, members);
  std::vector<CollectiveBuffers> sets;
  std::string refusal;
  collectively(world, [&] {
    const std::int64_t k = message_bytes(c) / element_bytes(c) / world.size();
    const auto bytes = std::max<std::size_t>(1, static_cast<std::size_t>(c.integer("bytes")));
    const std::size_t cache = std::max<std::size_t>(backend.device->info().cache_bytes, 32U << 20U);
    const std::size_t count = c.text("cache") == "warm" ? 1 : 4 * cache / bytes + 2;
    try {
      for (std::size_t i = 0; i < std::min<std::size_t>(count, 1024); ++i) {
        CollectiveBuffers& set = sets.emplace_back(*backend.device, collective_named(c.text("op")),
                                                   dtype_named(c.text("dtype")), k, world.rank(),
                                                   world.size(), c.text("in_place") == "yes");
        set.set_reduction(reduction_of(c));
      }
    } catch (const OutOfMemory& error) {
      refusal = error.what();
    } catch (const std::bad_alloc&) {
      refusal = "the host's own memory does not suffice";
    }
  });
  record.status = world.agree(refusal.empty() ? Status::ok : Status::oom);
  if (record.status == Status::oom) {
    record.reason = fmt::format("about {} are needed; {}", bytes_text(predict(c).memory_bytes),
                                first_text(world, refusal));
    return record;
  }
  Outcome outcome;
  outcome.checks.push_back(check(backend, communicator, sets.front(), c, 1));
  for (const CollectiveBuffers& set : sets) {
    set.fill(Pattern(world.size(), collective_named(c.text("op")).reduces, reduction_of(c), 2));
  }
  sample(c, backend, members, sets, outcome, context.progress);
  outcome.checks.push_back(check(backend, communicator, sets.front(), c, 3));
  add_outcome(record, outcome, world, ceiling);
  record.status = world.agree(record.status);
  return record;
}

CollectiveCheck CollectivesExperiment::check(const Backend& backend, Communicator& communicator,
                                             const CollectiveBuffers& buffers, const Case& c,
                                             std::int64_t salt) const {
  const Collective& op = collective_named(c.text("op"));
  const Pattern pattern(communicator.size(), op.reduces, reduction_of(c), salt);
  buffers.fill(pattern);
  (void)op.start(communicator, buffers.call());
  backend.device->synchronize();
  return buffers.check(pattern);
}

void CollectivesExperiment::sample(const Case& c, const Backend& backend, Members& members,
                                   const std::vector<CollectiveBuffers>& sets, Outcome& outcome,
                                   Progress& progress) {
  const Collective& op = collective_named(c.text("op"));
  Communicator& communicator = *members.communicators.at(backend.name);
  Stream& stream = backend.device->communication_stream();
  const bool barrier = c.text("cadence") == "barrier";
  const int launches = barrier ? 1 : launches_together;
  std::size_t next = 0;
  const SamplerHooks hooks{
      .repetition = [&]() -> PhaseSeconds {
        if (barrier) members.world->barrier();
        const double began = host_seconds();
        const EventPtr begin = stream.record();
        for (int i = 0; i < launches; ++i) {
          (void)op.start(communicator, sets[next++ % sets.size()].call());
        }
        const EventPtr end = stream.record();
        end->synchronize();
        const double host = host_seconds() - began;
        stream.synchronize();  // rethrows what went wrong there
        return {host / launches, end->seconds_since(*begin) / launches};
      },
      .stop_requested = StopSignal::requested,
      .progress =
          [&](bool warmup, int done, int total) {
            progress.update(fmt::format("{} {}/{}", warmup ? "warm-up" : "step", done, total),
                            static_cast<double>(done + (warmup ? 0 : options_.run.sampler.warmup)) /
                                (total + options_.run.sampler.warmup));
          }};
  outcome.samples = take_samples(*members.world, options_.run.sampler, {"host", "time"}, hooks);
}

// Every rank sends to the next and receives from the one before: what one direction of a link
// carries while all are busy, at the best of a few sizes and times.
double CollectivesExperiment::link_ceiling(const Backend& backend, Members& members) {
  const auto it = members.link_ceilings.find(backend.name);
  if (it != members.link_ceilings.end()) return it->second;
  World& world = *members.world;
  Communicator& communicator = *members.communicators.at(backend.name);
  double best = std::numeric_limits<double>::quiet_NaN();
  if (world.size() > 1) {
    best = 0;
    for (const std::int64_t elements : {1 << 18, 1 << 21, 1 << 24}) {
      best = std::max(best, ring_bandwidth(backend, world, communicator, elements));
    }
  }
  return members.link_ceilings[backend.name] = best;
}

}  // namespace paceline
