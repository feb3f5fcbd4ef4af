#include "harness/run_options.h"

#include "core/error.h"
#include "core/precision.h"
#include "core/units.h"

namespace paceline {

namespace {

constexpr int most_steps = 1'000'000;
constexpr double most_seconds = 1e6;

}  // namespace

void add_timeout(OptionParser& p, RunOptions& run) {
  p.real("--timeout", run.timeout, 1, most_seconds,
         "seconds that ranks wait for each other; then every rank ends with code 5 [120]");
}

void add_seed_options(OptionParser& p, RunOptions& run) {
  p.integer("--seed", run.seed, 0, std::int64_t{1} << 62U, "of random numbers [0]");
  p.flag("--deterministic", run.deterministic,
         "the same bits from run to run (the CPU device always is)");
}

void add_precision_option(OptionParser& p, std::vector<std::string>& precisions) {
  p.custom("--precision", "fp32 bf16 fp16 (tf32 needs a GPU), a,b [fp32]",
           [&precisions](const std::vector<std::string>& values) {
             precisions.clear();
             for (const std::string& v : values) {
               if (v == "fp64")
                 throw UsageError("fp64 is the tests' own; choose fp32, bf16 or fp16");
               precisions.emplace_back(precision_named(v).name);
             }
           });
}

void add_run_options(OptionParser& p, RunOptions& run) {
  p.choice(
      "--device", run.device, {"auto", "cpu", "cuda"},
      "auto, cpu or cuda; auto: cuda if every rank can have a GPU of its own (collectives: both "
      "memories) [auto]");
  p.integer("--threads", run.threads, 1, 4096,
            "CPU threads per rank [usable cores / ranks on the node]");
  p.text("--output", run.output, "the result file, F.h5 [results/<experiment>-<time>.h5]");
  p.flag("--resume", run.resume, "keep the finished cases of an output that exists");
  p.flag("--force", run.force, "replace an output that exists");
  p.flag("--dry-run", run.dry_run,
         "print every case with predicted FLOPs, bytes and memory; run nothing");
  p.flag("--quiet", run.quiet, "no progress");
  p.flag("--json", run.json, "one line of JSON per case on standard output, and no table");
  p.integer("--warmup", run.sampler.warmup, 0, most_steps, "repetitions before measuring [5]");
  p.integer("--steps", run.sampler.steps, 1, most_steps, "repetitions measured [10]");
  p.real("--until-ci", run.sampler.until_ci, 0.001, 100,
         "go on until the 95% interval's half width is at most this many percent of the median");
  p.integer("--max-steps", run.sampler.max_steps, 1, most_steps,
            "with --until-ci: the most repetitions measured [10 x steps]");
  p.custom("--memory-limit",
           "the device refuses more: an oom row; the one option that may differ between ranks "
           "[CPU: 0.9 x available / ranks]",
           [&run](const std::vector<std::string>& values) {
             if (values.size() != 1) throw UsageError("takes one value");
             run.memory_limit = static_cast<std::size_t>(parse_bytes(values.front()));
             if (*run.memory_limit < 1) throw UsageError("must be at least one byte");
           });
  add_timeout(p, run);
}

void check_run_options(const RunOptions& run) {
  if (run.resume && run.force) {
    throw UsageError("--resume: cannot stand beside --force; keep finished cases or replace them");
  }
  if (run.sampler.max_steps > 0 && run.sampler.until_ci == 0) {
    throw UsageError("--max-steps: goes with --until-ci; use --steps for a fixed number");
  }
  if (run.sampler.max_steps > 0 && run.sampler.max_steps < run.sampler.steps) {
    throw UsageError("--max-steps: is below --steps");
  }
}

}  // namespace paceline
