// The factors, presets and command of `collectives`.

#include <fmt/format.h>

#include <algorithm>

#include "core/units.h"
#include "experiments/collectives/collectives.h"
#include "harness/command.h"
#include "harness/experiment.h"

namespace paceline {

using C = CollectiveCase;

std::string CollectiveCase::what() const {
  const std::string call =
      fmt::format("{} of {}", op->name, bytes_text(static_cast<double>(message_bytes())));
  return launches() == 1 ? call : fmt::format("{} times {}", launches(), call);
}

Factors<C> collective_case_factors() {
  const Factors<C> collective = factors_of<CollectiveFactors>(
      axis<C>(&C::backend, "backend", "library and its memory: mpi (host), nccl (GPU)")
          .by_default("mpi,nccl")
          .described_default("those available"),
      axis<C>(&C::op, "op", "collective operation"),
      axis<C>(&C::ranks, "ranks", "number of ranks: the first N of the launch")
          .from(1, 1 << 20)
          .described_default("all"),
      axis<C>(&C::dtype, "dtype", "element type"),
      axis<C>(&C::redop, "redop", "reduction of the elements")
          .where([](const C& c) { return c.op->reduces; }, "an --op that takes a reduction"),
      axis<C>(&C::in_place, "in_place", "whether results overwrite the send buffer")
          .where([](const C& c) { return c.op->in_place && c.op->out_of_place; },
                 "an --op that can run in both ways: all_reduce reduce_scatter all_gather reduce"),
      axis<C>(&C::registration, "registration",
              "registration of buffers with NCCL; symmetric: all ranks register them as windows"),
      axis<C>(&C::cadence, "cadence",
              "a repetition: one call after a barrier, 20 calls, or 20 calls in a CUDA graph"),
      axis<C>(&C::cache, "cache",
              "state before each repetition; cold: the last-level cache is flushed, and each call "
              "has its own buffers"),
      axis<C>(&C::bytes, "bytes", "message size as nccl-tests defines it")
          .in("bytes")
          .by_default("1MB,10MB,100MB,1GB"));
  return joined<C>({collective, sampling_factors<C>()});
}

namespace {

// A preset that names the backends has rows for those that are not available.
const Presets& collective_presets() {
  static const Presets presets = {{"single-node", "--backend mpi,nccl --ranks 2,4,6"}};
  return presets;
}

class CollectivesCommand final : public Command {
 public:
  void declare(OptionParser& p) override {
    declare_run_options(p, run_);
    options_.factors.declare(p);
    p.flag("--fit", options_.fit,
           "fit time = latency + bytes / bandwidth to each sweep over --bytes");
    p.presets(collective_presets(), {});
  }
  void check(const OptionParser& p) override {
    check_run_options(run_, p);
    options_.factors.finish(p);
    options_.all_backends = !p.given("--backend");
    const auto named = [&](BackendKind kind) {
      const std::vector<BackendKind> all = backends_of_cases();
      return p.by_name("--backend") && std::find(all.begin(), all.end(), kind) != all.end();
    };
    if (run_.device == DeviceChoice::cpu && named(BackendKind::nccl)) {
      throw UsageError("--backend: nccl moves GPU memory; leave out --device cpu");
    }
    if (run_.device == DeviceChoice::cuda && named(BackendKind::mpi)) {
      throw UsageError("--backend: mpi moves host memory; leave out --device cuda");
    }
  }
  [[nodiscard]] std::vector<FactorNote> factor_notes() const override {
    return notes_of(options_.factors.factors());
  }
  [[nodiscard]] std::optional<std::vector<BackendKind>> backends() const override {
    return options_.all_backends ? std::vector<BackendKind>{} : backends_of_cases();
  }
  [[nodiscard]] ExitCode run(Launch* launch) override {
    const auto experiment =
        collectives_experiment(options_, launch->world, std::move(launch->backends));
    return run_sweep(*experiment, launch->world, std::move(launch->info), run_);
  }

 private:
  // The backends of all cases of the options, with repetitions.
  [[nodiscard]] std::vector<BackendKind> backends_of_cases() const {
    std::vector<BackendKind> kinds;
    for (const CollectiveCase& c : options_.factors.cases([](CollectiveCase&) { return true; })) {
      kinds.push_back(c.backend);
    }
    return kinds;
  }

  CollectivesOptions options_;
};

}  // namespace

std::unique_ptr<Command> collectives_command() { return std::make_unique<CollectivesCommand>(); }

}  // namespace paceline
