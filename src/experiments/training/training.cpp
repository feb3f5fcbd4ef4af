#include "experiments/training/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/training/sweep_tables.h"
#include "experiments/training/training_run.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// MFU is NaN if the ceilings' measurement is not reliable.
void add_rates_to(CaseRecord& record, const TrainingCase& c, const ProductCeilings& gemm,
                  const Peak& peak) {
  const double seconds = summarize(max_over_ranks(record.samples.back().measured)).median;
  const auto tokens = static_cast<double>(c.batch_size * c.context * c.ranks);
  const ProductFlops flops = model_flops(c.step_shape());
  const double flops_per_second = flops.total() / seconds;
  const auto rate_of = [&](const ProductRates& rates) {
    return rates.of(flops.total(), flops.attention);
  };
  const double ceiling = rate_of(gemm.rates());
  const double low = rate_of(gemm.rates(&Summary::ci_low));
  const double high = rate_of(gemm.rates(&Summary::ci_high));
  const double datasheet = rate_of(peak.rates);
  constexpr double tera = 1e12;
  const double divisor = gemm.is_reliable() ? 1 : std::numeric_limits<double>::quiet_NaN();
  const double mfu = flops_per_second / ceiling * divisor;
  record.add("tokens_per_s", tokens / seconds);
  record.add("model_tflops_per_s", flops_per_second / tera);
  record.add("gemm_ceiling_tflops_per_s", ceiling / tera);
  record.add("gemm_ceiling_ci_low_tflops_per_s", low / tera);
  record.add("gemm_ceiling_ci_high_tflops_per_s", high / tera);
  record.add("mfu_measured", mfu);
  record.add("mfu_measured_low", flops_per_second / high * divisor);
  record.add("mfu_measured_high", flops_per_second / low * divisor);
  record.add("datasheet_tflops_per_s", datasheet / tera);
  record.add("datasheet_source", peak.source);
  record.add("mfu_datasheet", flops_per_second / datasheet);
  warn_above_ceiling(record, std::fmax(mfu, flops_per_second / datasheet));
}

}  // namespace

TrainingExperiment::TrainingExperiment(const TrainingOptions& options, const RunOptions& run,
                                       World& world, Device& device,
                                       const ProcessGroup& data_parallel)
    : options_(options),
      run_(run),
      world_(world),
      device_(device),
      data_parallel_(data_parallel),
      ceilings_(world, device) {
  set_cases(options.factors.factors(), options.factors.cases([&](TrainingCase& c) {
    complete(c);
    return true;
  }));
  if (options.predict.empty()) return;
  for (std::size_t i = 0; i < case_count(); ++i) {
    if (case_at(i).strategy == Strategy::bucketed) return;
  }
  throw UsageError("--predict: applies to no case here; it goes with --sync bucketed");
}

void TrainingExperiment::complete(TrainingCase& c) const {
  complete_launch(c, world_, device_);
  if (options_.global_batch > 0) {
    const int ranks = data_parallel_.world.size();
    if (options_.global_batch % ranks != 0) {
      throw UsageError(
          fmt::format("--global-batch: {} rows cannot be split over {} ranks; use a multiple",
                      options_.global_batch, ranks));
    }
    c.batch_size = options_.global_batch / ranks;
  }
  if (c.size != ModelSize::custom) {
    const ModelConfig model = model_of(c.size);
    c.d_model = model.d_model;
    c.d_ff = model.d_ff;
    c.layers = model.layers;
    c.heads = model.heads;
  } else if (c.d_model == 0) {
    throw UsageError(
        "--size: custom cannot be combined with other sizes; give it alone, with --d-model, "
        "--d-ff, --layers and --heads");
  }
  if (!c.registration) {
    const bool symmetric = data_parallel_.communicator != nullptr &&
                           data_parallel_.communicator->backend() == BackendKind::nccl &&
                           data_parallel_.world.local_size() == data_parallel_.world.size();
    c.registration = symmetric && c.gains_from_windows() ? WindowRegistration::symmetric
                                                         : WindowRegistration::none;
  }
}

Prediction TrainingExperiment::prediction(const TrainingCase& c) const {
  const StepShape shape = c.step_shape();
  return {.flops = step_flops(shape).total(),
          .bytes = step_bytes(shape),
          .memory_bytes = memory_form(shape).peak()};
}

std::string TrainingExperiment::reason_to_skip(const TrainingCase& c) const {
  return reason_without_kernels(device_, c.ops_config(),
                                {.batch = c.batch_size,
                                 .context = c.context,
                                 .heads = c.heads,
                                 .head_dim = c.model().head_dim()});
}

CaseRecord TrainingExperiment::measure(const TrainingCase& c, Progress& progress) {
  if (auto skipped = skipped_case(world_, reason_to_skip(c))) return *std::move(skipped);
  device_.trim();  // frees memory kept from the previous case
  if (c.strategy == Strategy::fsdp && !gathers_) {
    CaseRecord refused;
    const auto duplicate = [&] {
      gathers_ = data_parallel_.communicator->duplicate(device_.gather_stream());
    };
    const auto require_free_memory = [&] { data_parallel_.communicator->require_free_memory(); };
    const Prediction predicted = prediction(c);
    if (!fits_in_memory(world_, refused, predicted, require_free_memory) ||
        !fits_in_memory(world_, refused, predicted, duplicate)) {
      gathers_.reset();  // some ranks may have made one; the next case makes it on all ranks
      return refused;
    }
    data_parallel_.gathers = gathers_.get();
  }
  CaseRecord verified;
  if (c.verify > 0) {
    verified = verify_training(c, world_, device_, data_parallel_, single_process_, progress);
    if (verified.status != Status::ok) return verified;
  }
  CaseRecord record;
  {
    TrainingRun run(c, world_, device_, data_parallel_, options_.dump.empty() ? nullptr : &dump_);
    record = measure_case(world_, device_, run, c, prediction(c), progress);
  }
  if (record.status == Status::oom) {
    dump_.reset();  // no step was run
  } else {
    add_rates(record, c);
  }
  record.tables.insert(record.tables.begin(), verified.tables.begin(), verified.tables.end());
  record.summary.insert(record.summary.begin(), verified.summary.begin(), verified.summary.end());
  return record;
}

// The ceiling is measured after the first step of the process, so that this step is cold.
void TrainingExperiment::add_rates(CaseRecord& record, const TrainingCase& c) {
  device_.trim();
  const ProductCeilings gemm = ceilings_.products(c.ops_config());
  std::vector<const Ceiling*> ceilings = gemm.all();
  if (c.profile > 0) ceilings.push_back(&ceilings_.copy());
  if (world_.rank() != 0) return;
  const Peak peak = peak_of(device_, c.ops_config(), options_.peak_tflops);
  add_rates_to(record, c, gemm, peak);
  record.tables.push_back(ceilings_table(ceilings));
  if (options_.kind != TrainingKind::model && c.ranks == 1) {
    record.warnings.push_back({warning::one_rank, "one rank exchanges nothing"});
  }
}

std::vector<std::string> TrainingExperiment::input_files(std::size_t index) const {
  std::vector<std::string> files = {case_at(index).weights, case_at(index).tokens};
  std::erase(files, "random");
  return files;
}

void TrainingExperiment::after_saved() {
  if (!dump_) return;
  dump_->write(options_.dump);
  dump_.reset();
}

std::vector<Table> TrainingExperiment::closing_tables(const std::vector<SummaryRow>& rows) const {
  std::vector<MeasuredCase> measured;
  for (const SummaryRow& row : rows) {
    if (value_in<std::string>(row.columns, "status") != "ok") continue;
    measured.push_back({&case_at(row.index), &row.columns});
  }
  std::vector<Table> tables;
  if (!options_.predict.empty()) {
    tables = prediction_tables(options_.predict, *data_parallel_.communicator, measured);
  }
  for (Table& table : recompute_tables(options_.factors.factors(), measured)) {
    tables.push_back(std::move(table));
  }
  return tables;
}

std::vector<ShownColumn> TrainingExperiment::shown_columns() const {
  std::vector<ShownColumn> shown;
  switch (options_.kind) {
    case TrainingKind::model:
      shown = {{"tokens_per_s", "rate"},
               {"model_tflops_per_s", "model"},
               {"gemm_ceiling_tflops_per_s", "ceiling"},
               {"mfu_measured", "MFU"},
               {"datasheet_tflops_per_s", "datasheet"},
               {"mfu_datasheet", "MFU'"}};
      break;
    case TrainingKind::ddp:
      shown = {{"communication_calls", "calls"}, {"sent_bytes", "sent"},
               {"communication_share", "share"}, {"exposed_share", "exposed"},
               {"tokens_per_s", "rate"},         {"mfu_measured", "MFU"}};
      break;
    case TrainingKind::zero:
      shown = {{"communication_calls", "calls"}, {"sent_bytes", "sent"},
               {"exposed_share", "exposed"},     {"tokens_per_s", "rate"},
               {"mfu_measured", "MFU"},          {"optimizer_state_bytes", "state"}};
      break;
  }
  const std::vector<ShownColumn> last = {{"peak_bytes", "peak"},
                                         {"skipped_steps", "skipped"},
                                         {"loss", "loss"},
                                         {"forward_events_s", "forward events"},
                                         {"forward_kernels_s", "forward kernels"},
                                         {"forward_products_share", "forward matmul share"},
                                         {"step_products_share", "step matmul share"},
                                         {"softmax_s", "softmax"},
                                         {"attention_products_s", "its matmuls"},
                                         {"forward_costliest_share", "costliest share"},
                                         {"forward_costliest_kernel", "costliest kernel"}};
  shown.insert(shown.end(), last.begin(), last.end());
  return shown;
}

std::string TrainingExperiment::notes() const {
  constexpr const char* sent = "sent: bytes that a rank sends in one step, in rings";
  switch (options_.kind) {
    case TrainingKind::model: break;
    case TrainingKind::ddp:
      return fmt::format(
          "communication_total: the sum of the all_reduces' times; _exposed: from the end of "
          "backward to the end of the last all_reduce; share, exposed: over the step. {}. "
          "Gradients: of the mean loss over all ranks' rows, summed over ranks; loss: of rank "
          "0's rows. MFU: model FLOPs (causal attention's halved) over the GEMM ceiling{}{}",
          sent,
          options_.predict.empty()
              ? ""
              : ". predict: n buckets, s bytes of all gradients, latency o, bandwidth w: overhead "
                "n o + s / (n w), smallest for buckets of sqrt(s o w) bytes; measured best: the "
                "bucket size of the fastest step",
          ceilings_.text());
    case TrainingKind::zero:
      return fmt::format(
          "communication_total: the sum of the collectives' times; _exposed: from the end of "
          "backward until the last gradients are reduced, plus the compute stream's waits within "
          "forward, backward and at the end of the step. With sharded state these waits are also "
          "in forward and backward, so the phases do not add up; rest is what follows backward. "
          "{}; state: Adam's, on the rank with the largest shard; loss: of rank 0's rows{}",
          sent, ceilings_.text());
  }
  constexpr const char* columns =
      "model: FLOPs of a rank's step, forward 2 B T (L (4 D^2 + 3 D F) + D V) + 2 L B T^2 D "
      "(causal), backward twice that, over its time; MFU: that over the median rate of large GEMMs "
      "measured in this run (ceiling; for attention in bf16x3 a third of bf16's); MFU': over the "
      "vendor's dense peak or --peak-tflops (datasheet)";
  return columns + ceilings_.text();
}

}  // namespace paceline
