// One case of `collectives` on its ranks: buffers, checks, samples, the links' ceiling.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>
#include <thread>

#include "core/clock.h"
#include "core/units.h"
#include "experiments/collectives/collectives.h"
#include "harness/rehearsal.h"
#include "harness/stop_signal.h"

namespace paceline {

namespace {

Dtype dtype_named(const std::string& name) {
  for (const Dtype d : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32}) {
    if (name_of(d) == name) return d;
  }
  throw InternalError("'" + name + "' is no dtype");
}

ReduceOp reduction_of(const Case& c) {
  return collective_named(c.text("op")).reduces ? reduce_op_named(c.text("redop")) : ReduceOp::sum;
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
// bytes, the best of a few times; 0 where a rank lacks the memory. Collective.
double receive_rate(const Collective& op, Device& device, World& world, Communicator& communicator,
                    std::int64_t bytes) {
  constexpr int repetitions = 5;
  const std::int64_t k = bytes / static_cast<std::int64_t>(sizeof(float)) / world.size();
  std::unique_ptr<CollectiveBuffers> buffers;
  collectively(world, [&] {
    try {
      buffers = std::make_unique<CollectiveBuffers>(device, of_device(device), op, Dtype::f32, k,
                                                    world.rank(), world.size(), !op.out_of_place);
    } catch (const OutOfMemory&) {
    } catch (const std::bad_alloc&) {
    }
  });
  if (world.agree(buffers ? Status::ok : Status::oom) != Status::ok) return 0;
  buffers->fill(Pattern(world.size(), false, ReduceOp::sum, 0));
  Stream& stream = communicator.stream();
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    world.barrier();
    const Watched watched(world.watch(), "measuring the links");
    const EventPtr begin = stream.record();
    op.start(communicator, buffers->call());
    const EventPtr end = stream.record();
    stream.synchronize();
    shortest = std::min(shortest, world.max(end->seconds_since(*begin)));
  }
  return static_cast<double>(buffers->call().recv.bytes()) / shortest;
}

// Of one repetition.
int launches_of(const Case& c) {
  constexpr int together = 20;
  return c.text("cadence") == "barrier" ? 1 : together;
}

}  // namespace

std::int64_t CollectivesExperiment::element_bytes(const Case& c) {
  return static_cast<std::int64_t>(size_of(dtype_named(c.text("dtype"))));
}

std::int64_t CollectivesExperiment::message_bytes(const Case& c) {
  const std::int64_t bytes = c.integer("bytes");
  const bool registered = c.text("registration") == "symmetric";
  const std::int64_t unit = registered ? registered_part_bytes : element_bytes(c);
  return bytes - bytes % (c.integer("ranks") * unit);
}

// As the watch names a repetition.
std::string CollectivesExperiment::what(const Case& c) {
  const std::string call =
      fmt::format("{} of {}", c.text("op"), bytes_text(static_cast<double>(message_bytes(c))));
  return launches_of(c) == 1 ? call : fmt::format("{} times {}", launches_of(c), call);
}

// Of the last level; what is taken for it where that is not known.
std::int64_t CollectivesExperiment::cache_bytes(const Case& c) const {
  constexpr std::int64_t least = 32 << 20;
  const Backend& backend = backend_of(c);
  if (!backend.device) return least;
  return std::max(least, static_cast<std::int64_t>(backend.device->info().cache_bytes));
}

// Cold: every call of a repetition has one of its own, or as many as go beyond the cache.
std::int64_t CollectivesExperiment::buffer_sets(const Case& c) const {
  if (c.text("cache") == "warm") return 1;
  const std::int64_t beyond = 2 * cache_bytes(c) / std::max<std::int64_t>(1, message_bytes(c)) + 2;
  return std::min<std::int64_t>(beyond, launches_of(c));
}

// Cold: written before each repetition.
std::int64_t CollectivesExperiment::flush_bytes(const Case& c) const {
  return c.text("cache") == "warm" ? 0 : 2 * cache_bytes(c);
}

CaseRecord CollectivesExperiment::measure(const Case& c, const Backend& backend, Members& members,
                                          Progress& progress) {
  World& world = *members.world;
  Communicator& communicator = *members.communicators.at(backend.name);
  CaseRecord record;
  record.factors = c;
  const double ceiling = link_ceiling(backend, members);
  Buffers buffers;
  if (!fits_in_memory(world, record, predict(c).memory_bytes,
                      [&] { buffers = make_buffers(c, backend, communicator); })) {
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
  const Collective& op = collective_named(c.text("op"));
  const CollectiveBuffers& checked = buffers.sets.front();
  outcome.checks.push_back({"before", check(world, communicator, checked, c, 1)});
  const Pattern pattern(world.size(), op.reduces, reduction_of(c), 2);
  for (const CollectiveBuffers& set : buffers.sets) set.fill(pattern);
  sample(c, backend, members, buffers, outcome, progress);
  // What the timed calls have left; a reduction in place has reduced its own results since.
  if (!op.reduces || c.text("in_place") == "no") {
    for (const CollectiveBuffers& set : buffers.sets) {
      outcome.checks.push_back({"timed", set.check(pattern)});
    }
  }
  outcome.checks.push_back({"after", check(world, communicator, checked, c, 3)});
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
  Buffers buffers;
  for (std::int64_t i = 0; i < buffer_sets(c); ++i) {
    buffers.sets.emplace_back(*backend.device, allocate, collective_named(c.text("op")),
                              dtype_named(c.text("dtype")), k, communicator.rank(),
                              communicator.size(), c.text("in_place") == "yes");
    buffers.sets.back().set_reduction(reduction_of(c));
  }
  if (const std::int64_t bytes = flush_bytes(c); bytes > 0) {
    buffers.flush = backend.device->allocate({bytes / 4}, Dtype::i32, MemoryKind::workspace);
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
  // The ranks' threads wake up one by one, which takes longer than a small message: they meet
  // before the first event, when all calls wait in their queues.
  const bool in_host_memory = communicator.backend() == "mpi";
  std::size_t next = 0;
  const auto calls = [&] {
    for (int i = 0; i < launches; ++i) {
      op.start(communicator, buffers.sets[next++ % buffers.sets.size()].call());
    }
  };
  std::unique_ptr<Graph> graph;
  if (c.text("cadence") == "graph") {
    const Watched watched(world.watch(), "capturing " + what(c));
    graph = device.capture(stream, calls);
  }
  const SamplerHooks hooks{.repetition = [&]() -> PhaseSeconds {
                             if (!buffers.flush.empty()) {
                               device.zero(buffers.flush);
                               device.synchronize();
                             }
                             if (c.text("cadence") == "barrier") world.barrier();
                             const Watched watched(world.watch(), what(c));
                             const double began = host_seconds();
                             std::atomic<bool> enqueued = false;
                             if (in_host_memory) {
                               stream.enqueue([&] {
                                 while (!enqueued) std::this_thread::yield();
                                 world.barrier();
                               });
                             }
                             const EventPtr begin = stream.record();
                             if (graph) {
                               graph->launch();
                             } else {
                               calls();
                             }
                             const EventPtr end = stream.record();
                             enqueued = true;
                             end->synchronize();
                             const double host = host_seconds() - began;
                             stream.synchronize();  // rethrows what went wrong there
                             PhaseSeconds seconds = {host, end->seconds_since(*begin)};
                             for (double& s : seconds) s /= launches;
                             return seconds;
                           },
                           .stop_requested = StopSignal::requested,
                           .progress = shown_on(progress, options_.run.sampler)};
  outcome.samples = take_samples(world, options_.run.sampler, {"host", "time"}, hooks);
}

// The most that a rank takes in from others, at the best of a few sizes and times: from its
// neighbour while every rank does, or in a broadcast. NaN for one rank, and where no size fits.
double CollectivesExperiment::link_ceiling(const Backend& backend, Members& members) {
  const auto it = members.link_ceilings.find(backend.name);
  if (it != members.link_ceilings.end()) return it->second;
  Communicator& communicator = *members.communicators.at(backend.name);
  double best = 0;
  if (members.world->size() > 1) {
    const int largest = backend.device->info().kind == "cuda" ? 30 : 26;
    for (const std::int64_t bytes : {1 << largest, 1 << (largest - 3), 1 << (largest - 6)}) {
      for (const char* op : {"send_recv", "broadcast"}) {
        best = std::max(best, receive_rate(collective_named(op), *backend.device, *members.world,
                                           communicator, bytes));
      }
    }
  }
  return members.link_ceilings[backend.name] =
             best > 0 ? best : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace paceline
