// What a case of a training experiment must not combine.

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/text.h"
#include "core/whole_file.h"
#include "experiments/training/sweep_tables.h"
#include "experiments/training/training.h"

namespace paceline {

namespace {

// The name of a file to read: it becomes a text of the result file.
void require_utf8(std::string_view option, const std::string& name) {
  if (is_utf8(name)) return;
  throw UsageError(fmt::format("{}: the name is not UTF-8; rename the file", option));
}

}  // namespace

void TrainingExperiment::check(const TrainingCase& c) const {
  check_sampling(c);
  require_utf8("--load-weights", c.weights);
  require_utf8("--tokens", c.tokens);
  check_inputs(c);
  check_model(c.model());
  check_precision(c.precision, c.device);
  if (c.execution == Execution::compiled && c.device == DeviceKind::cpu) {
    throw UsageError("--exec: compiled needs a GPU; use eager on the CPU");
  }
  if (options_.peak_tflops > 0) {
    require_one_arithmetic(c.ops_config(), case_at(0).precision, c.device);
  }
  require_a_case_that_runs(c);
  if (c.optimizer == OptimizerOrder::in_backward && c.precision.loss_scaling) {
    throw UsageError(
        "--optimizer: in-backward cannot skip a step whose gradients overflow; use serial with "
        "--precision fp16");
  }
  if (c.weights != "random") check_weights_file(c.weights, c.model());
  if (c.tokens != "random") {
    (void)c.rows(data_parallel_.world.rank() * c.batch_size, c.batch_size);
  }
  check_dump();
  if (options_.kind != TrainingKind::model) check_exchange(c);
}

void TrainingExperiment::check_dump() const {
  if (options_.dump.empty()) return;
  if (case_count() > 1) {
    throw UsageError("--dump: holds one case; this sweep has " + std::to_string(case_count()));
  }
  if (is_same_file(options_.dump, run_.output)) {
    throw UsageError("--dump: is the same file as --output; name another file");
  }
  const std::filesystem::path cases = cases_folder(run_.output);
  const std::filesystem::path dump = target_of(options_.dump);
  if (is_same_file(dump, cases) || is_same_file(dump.parent_path(), cases)) {
    throw UsageError(
        fmt::format("--dump: {} is for the cases of --output; name another place", cases.string()));
  }
  if (world_.rank() == 0 && !run_.dry_run) Dump::check_writable(options_.dump, run_.force);
}

// With --force an output replaces its file before the input files are read. Only --dump may replace
// the file of the weights, because they are in memory by then.
void TrainingExperiment::check_inputs(const TrainingCase& c) const {
  const auto file_of = [](const std::string& text) { return text != "random" ? text : ""; };
  refuse_same_file("--output", run_.output, "--load-weights", file_of(c.weights));
  refuse_same_file("--output", run_.output, "--tokens", file_of(c.tokens));
  refuse_same_file("--output", run_.output, "--predict", options_.predict);
  refuse_same_file("--dump", options_.dump, "--tokens", file_of(c.tokens));
  refuse_same_file("--dump", options_.dump, "--predict", options_.predict);
}

void TrainingExperiment::check_exchange(const TrainingCase& c) const {
  if (options_.kind == TrainingKind::zero && c.mode != Mode::train_step) {
    throw UsageError(fmt::format("--mode: {} has no optimizer; use train-step", name_of(c.mode)));
  }
  if (c.mode < Mode::forward_backward) {
    throw UsageError(fmt::format("--mode: {} has no gradients; use train-step or forward-backward",
                                 name_of(c.mode)));
  }
  if (c.comm_dtype == GradientDtype::bf16 && c.precision.loss_scaling) {
    throw UsageError("--comm-dtype: bf16 cannot be combined with --precision fp16; use fp32");
  }
  // The convergence condition of Kingma & Ba (Adam, 2015). Without it updates are unbounded and
  // dominated by rounding.
  if (c.verify > 0 && c.beta1 * c.beta1 > std::sqrt(c.beta2)) {
    throw UsageError(
        "--verify: needs --beta1 squared to be at most the square root of --beta2; otherwise no "
        "two runs agree");
  }
  if (c.verify > 0 &&
      (c.precision != precision_named("fp32") || c.comm_dtype != GradientDtype::fp32)) {
    throw UsageError("--verify: compares in fp32; leave out other --precision and --comm-dtype");
  }
  if (c.verify > 0 && c.mode != Mode::train_step) {
    throw UsageError("--verify: needs train-step; leave out --mode");
  }
  if (c.exchanges() && c.registration == WindowRegistration::symmetric) {
    if (data_parallel_.communicator->backend() == BackendKind::mpi) {
      throw UsageError("--registration: symmetric needs nccl; use none with mpi");
    }
    if (data_parallel_.world.local_size() < data_parallel_.world.size()) {
      throw EnvironmentError("--registration: symmetric windows need all ranks on one node");
    }
  }
  if (!options_.predict.empty() && c.strategy == Strategy::bucketed) {
    (void)read_link(options_.predict, *data_parallel_.communicator, c);
  }
}

}  // namespace paceline
