// From what the ranks measured to the case's record.

#include <algorithm>

#include "experiments/training/model.h"
#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

void ModelExperiment::add_outcome(CaseRecord& record, const Outcome& outcome) const {
  const Samples& samples = outcome.samples;
  record.stop_reason = samples.stop_reason;
  for (std::size_t p = 0; p < samples.phases.size(); ++p) {
    // The rehearsal is the step from cold: it comes first among the warm-up samples.
    std::vector<double> warmup = {outcome.rehearsal[p]};
    warmup.insert(warmup.end(), samples.warmup[p].begin(), samples.warmup[p].end());
    record.samples.push_back({.phase = samples.phases[p],
                              .warmup = gather_doubles(world_, warmup),
                              .measured = gather_doubles(world_, samples.measured[p])});
  }
  const auto setup = gather_doubles(world_, {outcome.setup_seconds});
  const auto losses = gather_doubles(world_, {outcome.loss});
  add_memory(record, outcome);
  if (!outcome.timeline.empty()) add_communication(record, outcome);
  if (world_.rank() != 0) return;

  Column rank{"rank", "", std::vector<std::int64_t>{}};
  Column loss{"loss", "", std::vector<double>{}};
  Column setup_column{"setup", "s", std::vector<double>{}};
  double slowest_setup = 0;
  for (std::size_t r = 0; r < losses.size(); ++r) {
    std::get<0>(rank.data).push_back(static_cast<std::int64_t>(r));
    std::get<1>(loss.data).push_back(losses[r][0]);
    std::get<1>(setup_column.data).push_back(setup[r][0]);
    slowest_setup = std::max(slowest_setup, setup[r][0]);
  }
  record.tables.push_back({"values", {rank, loss, setup_column}});
  record.summary.push_back(number("setup_s", "s", slowest_setup));
  record.summary.push_back(
      number("rehearsal_s", "s", max_over_ranks(record.samples.back().warmup).front()));
  add_rates(record, outcome);
  record.summary.push_back(number("loss", "", losses[0][0]));
}

void ModelExperiment::add_rates(CaseRecord& record, const Outcome& outcome) const {
  const Case& c = record.factors;
  const double seconds = summarize(max_over_ranks(record.samples.back().measured)).median;
  const auto tokens =
      static_cast<double>(c.integer("batch_size") * c.integer("context") * c.integer("ranks"));
  const double flops_per_second = model_flops(shape_of(c)) / seconds;
  constexpr double tera = 1e12;
  record.summary.push_back(number("tokens_per_s", "tokens/s", tokens / seconds));
  record.summary.push_back(number("model_tflops_per_s", "TFLOP/s", flops_per_second / tera));
  record.summary.push_back(
      number("gemm_ceiling_tflops_per_s", "TFLOP/s", outcome.gemm_ceiling / tera));
  record.summary.push_back(number("mfu_measured", "", flops_per_second / outcome.gemm_ceiling));
  record.summary.push_back(
      number("datasheet_tflops_per_s", "TFLOP/s", outcome.datasheet_peak / tera));
  record.summary.push_back(number("mfu_datasheet", "", flops_per_second / outcome.datasheet_peak));
}

std::vector<ShownColumn> ModelExperiment::shown_columns() const {
  return {{"tokens_per_s", "rate"},
          {"model_tflops_per_s", "model"},
          {"gemm_ceiling_tflops_per_s", "ceiling"},
          {"mfu_measured", "MFU"},
          {"datasheet_tflops_per_s", "datasheet"},
          {"mfu_datasheet", "MFU'"},
          {"peak_bytes", "peak"},
          {"loss", "loss"}};
}

std::string ModelExperiment::notes() const {
  return "times: median over repetitions of the slowest rank. model: FLOPs of a rank's step, "
         "forward "
         "2 B T (L (4 D^2\n"
         "+ 3 D F) + D V) + 4 L B T^2 D, backward twice that, over its time; MFU: that over the "
         "best "
         "GEMM measured here\n"
         "(ceiling); MFU': over the vendor's dense figure (datasheet), where one is stated\n";
}

}  // namespace paceline
