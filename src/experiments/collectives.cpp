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

// Of one repetition.
int launches_of(const Case& c) {
  constexpr int together = 20;
  return c.text("cadence") == "barrier" ? 1 : together;
}

std::vector<Value> values_of(const auto& list) {
  std::vector<Value> v;
  for (const auto& x : list) v.emplace_back(x);
  return v;
}

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

CollectiveBuffers::Allocate of_device(Device& device) {
  return [&device](const Shape& shape, Dtype dtype) {
    return device.allocate(shape, dtype, MemoryKind::communication);
  };
}
CollectiveBuffers::Allocate of_communicator(Communicator& communicator) {
  return [&communicator](const Shape& shape, Dtype dtype) {
    return communicator.allocate(shape, dtype);
  };
}

// Bytes per second that a rank takes in from others when each gets a message of about so many
// bytes, the best of a few times. Collective.
double receive_rate(const Collective& op, const Backend& backend, World& world,
                    Communicator& communicator, std::int64_t bytes) {
  constexpr int repetitions = 5;
  const std::int64_t k = bytes / static_cast<std::int64_t>(sizeof(float)) / world.size();
  const CollectiveBuffers buffers(*backend.device, of_device(*backend.device), op, Dtype::f32, k,
                                  world.rank(), world.size(), !op.out_of_place);
  buffers.fill(Pattern(world.size(), false, ReduceOp::sum, 0));
  Stream& stream = communicator.stream();
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    world.barrier();
    const EventPtr begin = stream.record();
    op.start(communicator, buffers.call());
    const EventPtr end = stream.record();
    const Watched watched(world.watch(), "measuring the links");
    stream.synchronize();
    shortest = std::min(shortest, world.max(end->seconds_since(*begin)));
  }
  return static_cast<double>(buffers.call().recv.bytes()) / shortest;
}

}  // namespace

CollectivesExperiment::CollectivesExperiment(const Options& options, World& world,
                                             std::vector<Backend> backends)
    : options_(options), world_(world), backends_(std::move(backends)) {}

std::int64_t CollectivesExperiment::message_bytes(const Case& c) {
  const std::int64_t bytes = c.integer("bytes");
  const bool registered = c.text("registration") == "symmetric";
  const std::int64_t unit = registered ? registered_part_bytes : element_bytes(c);
  return bytes - bytes % (c.integer("ranks") * unit);
}

// As the watch names it, and the host communicator too.
std::string CollectivesExperiment::what(const Case& c) {
  return fmt::format("{} of {}", c.text("op"), bytes_text(static_cast<double>(message_bytes(c))));
}

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
  grid.axis("backend", values_of(backends));
  grid.axis("op", values_of(o.ops));
  grid.axis("ranks", values_of(ranks));
  grid.axis("dtype", values_of(o.dtypes));
  grid.axis("redop", values_of(o.redops));
  grid.axis("in_place", values_of(o.in_place));
  grid.axis("registration", values_of(o.registrations));
  grid.axis("cadence", values_of(o.cadences));
  grid.axis("cache", values_of(o.caches));
  grid.axis("bytes", values_of(o.bytes));
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
    const SamplerConfig& s = options_.run.sampler;
    c.set("warmup", std::int64_t{s.warmup});
    c.set("steps", std::int64_t{s.steps});
    c.set("until_ci", s.until_ci);
    c.set("max_steps", std::int64_t{s.max_steps});
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
  if (const std::string reason = reason_to_skip(c); !reason.empty() && o.backends_given) {
    throw EnvironmentError(fmt::format("--backend: {}", reason));
  }
  if (const std::string refusal = refusal_of_mpi(c); !refusal.empty()) throw UsageError(refusal);
}

CollectivesExperiment::Members& CollectivesExperiment::members_of(const Backend& backend,
                                                                  int ranks) {
  const auto [it, is_new] = members_.try_emplace(ranks);
  Members& members = it->second;
  if (is_new) members.world = world_.first_ranks(ranks);
  if (backend.communicator && members.communicators.count(backend.name) == 0) {
    members.communicators[backend.name] = backend.communicator->first_ranks(ranks);
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
  std::optional<StoppedError> stopped;
  if (members.world) {
    try {
      record = measure(c, backend, members, progress);
    } catch (const StoppedError& error) {
      stopped.emplace(error.what());
      record.status = Status::stopped;
    }
    backend.device->trim();
  }
  world_.wait_idle();
  record.status = world_.agree(record.status);
  if (record.status == Status::stopped) {
    throw stopped ? *stopped : StoppedError("stopped by a signal");
  }
  return record;
}

CaseRecord CollectivesExperiment::measure(const Case& c, const Backend& backend, Members& members,
                                          Progress& progress) {
  World& world = *members.world;
  Communicator& communicator = *members.communicators.at(backend.name);
  CaseRecord record;
  record.factors = c;
  const double ceiling = link_ceiling(backend, members);
  Buffers buffers;
  std::string refusal;
  collectively(world, [&] {
    try {
      buffers = make_buffers(c, backend, communicator);
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
  std::vector<std::shared_ptr<void>> registrations;
  if (c.text("registration") == "symmetric") {
    for (const CollectiveBuffers& set : buffers.sets) {
      for (const Array& memory : set.memory()) {
        registrations.push_back(communicator.register_memory(memory));
      }
    }
  }
  Outcome outcome;
  const CollectiveBuffers& checked = buffers.sets.front();
  outcome.checks.push_back(check(world, communicator, checked, c, 1));
  for (const CollectiveBuffers& set : buffers.sets) {
    set.fill(Pattern(world.size(), collective_named(c.text("op")).reduces, reduction_of(c), 2));
  }
  sample(c, backend, members, buffers, outcome, progress);
  outcome.checks.push_back(check(world, communicator, checked, c, 3));
  add_outcome(record, outcome, world, ceiling);
  record.status = world.agree(record.status);
  return record;
}

// Warm: one set of buffers. Cold: the cache is flushed before each repetition, within which every
// call has a set of its own, or as many as go beyond the cache.
CollectivesExperiment::Buffers CollectivesExperiment::make_buffers(
    const Case& c, const Backend& backend, Communicator& communicator) const {
  const std::int64_t k = message_bytes(c) / element_bytes(c) / communicator.size();
  const auto allocate =
      c.text("registration") == "none" ? of_device(*backend.device) : of_communicator(communicator);
  const std::int64_t cache = std::max<std::int64_t>(
      static_cast<std::int64_t>(backend.device->info().cache_bytes), 32 << 20);
  const bool cold = c.text("cache") == "cold";
  const std::int64_t beyond = 2 * cache / std::max<std::int64_t>(1, c.integer("bytes")) + 2;
  const std::int64_t count = cold ? std::min<std::int64_t>(beyond, launches_of(c)) : 1;
  Buffers buffers;
  for (std::int64_t i = 0; i < count; ++i) {
    buffers.sets.emplace_back(*backend.device, allocate, collective_named(c.text("op")),
                              dtype_named(c.text("dtype")), k, communicator.rank(),
                              communicator.size(), c.text("in_place") == "yes");
    buffers.sets.back().set_reduction(reduction_of(c));
  }
  if (cold) {
    buffers.flush = backend.device->allocate({2 * cache / 4}, Dtype::i32, MemoryKind::workspace);
  }
  return buffers;
}

CollectiveCheck CollectivesExperiment::check(World& world, Communicator& communicator,
                                             const CollectiveBuffers& buffers, const Case& c,
                                             std::int64_t salt) const {
  const Collective& op = collective_named(c.text("op"));
  const Pattern pattern(communicator.size(), op.reduces, reduction_of(c), salt);
  buffers.fill(pattern);
  {
    const Watched watched(world.watch(), what(c));
    op.start(communicator, buffers.call());
    communicator.stream().synchronize();
  }
  return buffers.check(pattern);
}

void CollectivesExperiment::sample(const Case& c, const Backend& backend, Members& members,
                                   const Buffers& buffers, Outcome& outcome, Progress& progress) {
  const Collective& op = collective_named(c.text("op"));
  World& world = *members.world;
  Device& device = *backend.device;
  Communicator& communicator = *members.communicators.at(backend.name);
  Stream& stream = communicator.stream();
  const int launches = launches_of(c);
  std::size_t next = 0;
  const auto calls = [&] {
    for (int i = 0; i < launches; ++i) {
      op.start(communicator, buffers.sets[next++ % buffers.sets.size()].call());
    }
  };
  std::unique_ptr<Graph> graph;
  if (c.text("cadence") == "graph") graph = device.capture(stream, calls);
  const SamplerHooks hooks{
      .repetition = [&]() -> PhaseSeconds {
        if (!buffers.flush.empty()) {
          device.zero(buffers.flush);
          device.synchronize();
        }
        if (c.text("cadence") == "barrier") world.barrier();
        const Watched watched(world.watch(), what(c));
        const double began = host_seconds();
        const EventPtr begin = stream.record();
        if (graph) {
          graph->launch();
        } else {
          calls();
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
  outcome.samples = take_samples(world, options_.run.sampler, {"host", "time"}, hooks);
}

// The most that a rank takes in from others, at the best of a few sizes and times: from its
// neighbour while every rank does, or in a broadcast.
double CollectivesExperiment::link_ceiling(const Backend& backend, Members& members) {
  const auto it = members.link_ceilings.find(backend.name);
  if (it != members.link_ceilings.end()) return it->second;
  World& world = *members.world;
  Communicator& communicator = *members.communicators.at(backend.name);
  double best = std::numeric_limits<double>::quiet_NaN();
  if (world.size() > 1) {
    best = 0;
    const int largest = backend.device->info().kind == "cuda" ? 30 : 26;
    for (const std::int64_t bytes : {1 << largest, 1 << (largest - 3), 1 << (largest - 6)}) {
      for (const char* op : {"send_recv", "broadcast"}) {
        best =
            std::max(best, receive_rate(collective_named(op), backend, world, communicator, bytes));
      }
    }
  }
  return members.link_ceilings[backend.name] = best;
}

}  // namespace paceline
