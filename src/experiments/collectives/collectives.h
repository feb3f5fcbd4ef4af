#pragma once
// `paceline collectives`: one sweep over backends, operations, sizes and rank counts. A case with
// fewer ranks than the launch runs on a subgroup while the other ranks wait idle.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "core/world.h"
#include "experiments/collectives/collective.h"
#include "harness/case_run.h"
#include "harness/experiment.h"
#include "harness/factor_options.h"
#include "harness/launch.h"
#include "harness/run_options.h"

namespace paceline {

template <>
struct FactorValue<const Collective*> {
  static constexpr ValueType type = ValueType::name;
  static const Collective* read(std::string_view text, const Range& /*range*/) {
    return &collective_named(text);
  }
  static Value write(const Collective* value) { return std::string(value->name); }
  static std::string choices() { return joined_names(collective_names()); }
};

// A repetition is one call after a barrier, 20 calls one after another, or 20 calls in a CUDA
// graph.
enum class Cadence : std::uint8_t { barrier, back_to_back, graph };
constexpr auto names_of(Cadence) { return names("barrier", "back-to-back", "graph"); }

struct CollectiveFactors {
  BackendKind backend = BackendKind::mpi;
  const Collective* op = &collective_named("all_reduce");
  int ranks = 0;  // the first `ranks` ranks of the launch; 0: all
  Dtype dtype = Dtype::f32;
  ReduceOp redop = ReduceOp::sum;
  YesNo in_place = YesNo::no;
  WindowRegistration registration = WindowRegistration::none;
  Cadence cadence = Cadence::barrier;
  CacheState cache = CacheState::warm;
  ByteCount bytes;

  [[nodiscard]] bool operator==(const CollectiveFactors&) const = default;
};

struct CollectiveCase : CollectiveFactors, SamplerConfig {
  [[nodiscard]] bool operator==(const CollectiveCase&) const = default;

  [[nodiscard]] std::int64_t element_bytes() const {
    return static_cast<std::int64_t>(size_of(dtype));
  }
  // Messages are multiples of ranks x the dtype's size, or of ranks x 16 bytes if the buffers are
  // registered.
  [[nodiscard]] std::int64_t message_unit() const {
    return ranks * (is_registered() ? registered_part_bytes : element_bytes());
  }
  // --bytes rounded down to a multiple of message_unit().
  [[nodiscard]] std::int64_t message_bytes() const {
    return bytes.bytes - bytes.bytes % message_unit();
  }
  // --in-place, unless the operation supports only one of the two.
  [[nodiscard]] bool is_in_place() const {
    return op->in_place && (!op->out_of_place || in_place == YesNo::yes);
  }
  [[nodiscard]] bool is_registered() const { return registration == WindowRegistration::symmetric; }
  // Calls per repetition.
  [[nodiscard]] int launches() const {
    constexpr int calls = 20;
    return cadence == Cadence::barrier ? 1 : calls;
  }
  // "20 times all_reduce of 1 MB": the watchdog's name for a repetition.
  [[nodiscard]] std::string what() const;
};

[[nodiscard]] Factors<CollectiveCase> collective_case_factors();

// The factors and the command's other options.
struct CollectivesOptions {
  FactorOptions<CollectiveCase> factors{collective_case_factors()};
  bool all_backends = true;  // --backend is not given: use every available backend
  bool fit = false;          // latency and bandwidth of each sweep over sizes
};

// backends: indexed by BackendKind. Throws UsageError for an option that applies to no case.
[[nodiscard]] std::unique_ptr<Experiment> collectives_experiment(const CollectivesOptions& options,
                                                                 World& world,
                                                                 std::vector<Backend> backends);

// Buffer sets that calls use in turn. Warm: 1. Cold: one for every call of a repetition, or fewer
// that together exceed twice the cache.
[[nodiscard]] std::int64_t buffer_sets(const CollectiveCase& c, std::int64_t cache_bytes);

// One case: buffers, checks, timed calls. world: the ranks that take part. link_ceiling: bytes/s.
// All arguments outlive the run.
[[nodiscard]] std::unique_ptr<CaseRun> collective_run(const CollectiveCase& c, World& world,
                                                      Device& device, Communicator& communicator,
                                                      double link_ceiling);

// Collective. The highest rate, in bytes/s, at which a rank receives from others: the best of three
// sizes and five repetitions each, in a send_recv ring and in a broadcast. NaN for one rank, or if
// no size fits in memory.
[[nodiscard]] double link_ceiling(Device& device, World& world, Communicator& communicator);

}  // namespace paceline
