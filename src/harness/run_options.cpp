#include "harness/run_options.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/units.h"
#include "core/whole_file.h"

namespace paceline {

void declare_launch_options(OptionParser& p, RunOptions& run) {
  p.value("--device", run.device,
          "auto, cpu or cuda; auto: cuda if every rank can have a GPU of its own (collectives: "
          "both memories) [auto]");
  p.value("--threads", run.threads,
          "CPU threads per rank; fewer where OpenMP grants a rank fewer [usable cores, at most the "
          "CPU quota, / ranks on the node]",
          {1, 4096});
  constexpr double max_seconds = 1e6;
  p.value("--timeout", run.timeout,
          "seconds that ranks wait for each other; then every rank ends with code 5 [120]",
          {1, max_seconds});
}

void declare_peak(OptionParser& p, double& tflops) {
  p.value("--peak-tflops", tflops,
          "dense TFLOP/s of the device in the cases' arithmetic, instead of the data sheet's",
          {1e-6, 1e9});
}

void declare_run_options(OptionParser& p, RunOptions& run) {
  declare_launch_options(p, run);
  p.value("--output", run.output, "the result file, F.h5 [results/<experiment>-<time>.h5]");
  p.flag("--resume", run.resume, "keep the finished cases of an output that exists");
  p.flag("--force", run.force, "replace an output that exists");
  p.flag("--dry-run", run.dry_run,
         "print every case with predicted FLOPs, bytes and memory, and why it cannot run here; run "
         "nothing");
  p.flag("--quiet", run.quiet, "no progress");
  p.flag("--json", run.json, "one line of JSON per case on standard output, and no table");
  p.option(
      "--memory-limit",
      "device memory limit; a case that needs more is recorded as oom; the only option that may "
      "differ between ranks [CPU: 0.9 x available / ranks of the host]",
      [&run](const OptionParser::Texts& values) {
        run.memory_limit = static_cast<std::size_t>(parse_bytes(OptionParser::single(values)));
        if (*run.memory_limit < 1) throw UsageError("must be at least one byte");
      });
  p.config_file();
}

void refuse_same_file(std::string_view output, const std::string& path, std::string_view input,
                      const std::string& file) {
  if (path.empty() || file.empty() || !is_same_file(path, file)) return;
  throw UsageError(fmt::format("{}: is the same file as {}; name another file", output, input));
}

void check_run_options(const RunOptions& run, const OptionParser& p) {
  refuse_same_file("--output", run.output, "--config", p.text("--config"));
  if (run.resume && run.force) {
    throw UsageError(
        "--resume: cannot be combined with --force; keep finished cases or replace them");
  }
  if (run.output.empty() && (run.resume || run.force)) {
    throw UsageError(fmt::format("{}: needs --output, the file to {}",
                                 run.resume ? "--resume" : "--force",
                                 run.resume ? "resume" : "replace"));
  }
}

void complete_launch(LaunchFactors& c, const World& world, const Device& device) {
  const DeviceInfo info = device.info();
  c.ranks = world.size();
  c.device = info.kind;
  c.threads = info.threads;
}

}  // namespace paceline
