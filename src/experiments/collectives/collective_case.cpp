#include "experiments/collectives/collective_case.h"

#include <fmt/format.h>

#include "core/units.h"

namespace paceline {

using C = CollectiveCase;

std::int64_t CollectiveCase::element_bytes() const {
  return static_cast<std::int64_t>(size_of(dtype));
}

std::int64_t CollectiveCase::message_bytes() const {
  const std::int64_t unit = is_registered() ? registered_part_bytes : element_bytes();
  return bytes.bytes - bytes.bytes % (ranks * unit);
}

bool CollectiveCase::is_in_place() const {
  return op->in_place && (!op->out_of_place || in_place == YesNo::yes);
}

int CollectiveCase::launches() const {
  constexpr int together = 20;
  return cadence == Cadence::barrier ? 1 : together;
}

std::string CollectiveCase::what() const {
  const std::string call =
      fmt::format("{} of {}", op->name, bytes_text(static_cast<double>(message_bytes())));
  return launches() == 1 ? call : fmt::format("{} times {}", launches(), call);
}

Factors<C> collective_case_factors() {
  return joined<C>(
      {factors_of<CollectiveFactors>(
           factor<C>(&C::backend, {.name = "backend",
                                   .help = "memory and library: mpi (host), nccl (GPU)",
                                   .use = FactorUse::axis,
                                   .defaults = "mpi,nccl",
                                   .said_default = "those the machine has"}),
           factor<C>(&C::op, {.name = "op", .use = FactorUse::axis}),
           factor<C>(&C::ranks, {.name = "ranks",
                                 .help = "number of ranks: the first N of the launch",
                                 .use = FactorUse::axis,
                                 .said_default = "all",
                                 .least = 1,
                                 .most = 1 << 20}),
           factor<C>(&C::dtype, {.name = "dtype", .use = FactorUse::axis}),
           factor<C>(&C::redop, {.name = "redop",
                                 .use = FactorUse::axis,
                                 .applies = [](const C& c) { return c.op->reduces; },
                                 .goes_with = "an --op that takes a reduction"}),
           factor<C>(
               &C::in_place,
               {.name = "in_place",
                .use = FactorUse::axis,
                .applies = [](const C& c) { return c.op->in_place && c.op->out_of_place; },
                .goes_with = "an --op that has both: all_reduce reduce_scatter all_gather reduce"}),
           factor<C>(&C::registration,
                     {.name = "registration",
                      .help = "symmetric: buffers in windows that all ranks have registered with "
                              "NCCL",
                      .use = FactorUse::axis}),
           factor<C>(&C::cadence,
                     {.name = "cadence",
                      .help = "one call between barriers, 20 calls, or 20 calls in a CUDA graph",
                      .use = FactorUse::axis}),
           factor<C>(&C::cache,
                     {.name = "cache",
                      .help = "cold: the last-level cache is flushed before each repetition, in "
                              "which every call has buffers of its own",
                      .use = FactorUse::axis}),
           factor<C>(&C::bytes, {.name = "bytes",
                                 .help = "of the whole buffer, as nccl-tests counts",
                                 .use = FactorUse::axis,
                                 .defaults = "1MB,10MB,100MB,1GB"})),
       sampling_factors<C>()});
}

// Every preset pins every factor.
const Presets& collective_presets() {
  static const auto* const presets = new Presets{{"single-node",
                                                  {{"--backend", "mpi,nccl"},
                                                   {"--op", "all_reduce"},
                                                   {"--bytes", "1MB,10MB,100MB,1GB"},
                                                   {"--dtype", "float32"},
                                                   {"--redop", "sum"},
                                                   {"--in-place", "no"},
                                                   {"--ranks", "2,4,6"},
                                                   {"--registration", "none"},
                                                   {"--cadence", "barrier"},
                                                   {"--cache", "warm"},
                                                   {"--warmup", "5"},
                                                   {"--steps", "10"},
                                                   {"--until-ci", "0"},
                                                   {"--max-steps", "0"}}}};
  return *presets;
}

}  // namespace paceline
