#include "experiments/precision/precision.h"

#include "experiments/precision/studies.h"
#include "harness/attention_factors.h"
#include "harness/case_run.h"

namespace paceline {

namespace {

std::string_view notes_of(Study study) {
  switch (study) {
    case Study::accumulation:
      return "accumulation: relative errors. error: of the sum, relative to count x addend; of the "
             "addend: from rounding it; of additions: of the sum, relative to the exact sum of the "
             "rounded addends; bound: Higham's bound on the error of additions, u being the unit "
             "roundoff of the sum's dtype: sequential (n - 1) u, pairwise ceil(log2 n) u, blocked "
             "(32 + n / 32 - 2) u, compensated 2 u + O(n u^2).\n";
    case Study::dtypes:
      return "dtypes: of the tensors of a training step; as autocast: as under PyTorch's.\n";
    case Study::norms:
      return "norms: relative errors. of the input: of the float64 norm, from rounding its input "
             "to "
             "the half type; float32 statistics, rounded statistics: of the norm of the rounded "
             "input, with float32 statistics or with every operation rounded to the half type.\n";
  }
  throw_unnamed(static_cast<std::size_t>(study));
}

}  // namespace

PrecisionExperiment::PrecisionExperiment(const FactorOptions<PrecisionCase>& options, World& world,
                                         Device& device)
    : world_(world), device_(device) {
  set_cases(options.factors(), options.cases([&](PrecisionCase& c) {
    complete_launch(c, world, device);
    const bool is_named = options.by_name("--precision");
    return is_named || c.precision.gemm == GemmMath::exact || c.device == DeviceKind::cuda;
  }));
}

Prediction PrecisionExperiment::prediction(const PrecisionCase& c) const {
  return {.flops = c.study == Study::accumulation ? static_cast<double>(c.count) : 0};
}

void PrecisionExperiment::check(const PrecisionCase& c) const {
  check_precision(c.precision, c.device);
}

CaseRecord PrecisionExperiment::measure(const PrecisionCase& c, Progress& /*progress*/) {
  CaseRecord refused;
  CaseRecord record;
  device_.trim();
  const auto seed = static_cast<std::uint64_t>(c.seed);
  const auto study = [&] {
    switch (c.study) {
      case Study::accumulation: return add_accumulation(record, c);
      case Study::dtypes: return add_dtypes(record, device_, c, seed);
      case Study::norms: return add_norm_errors(record, c, seed);
    }
  };
  if (!fits_in_memory(world_, refused, prediction(c), study)) return refused;
  record.status = world_.agree(record.status);
  return record;
}

std::vector<Table> PrecisionExperiment::closing_tables(const std::vector<SummaryRow>& rows) const {
  std::vector<Row> finished;
  for (const SummaryRow& row : rows) {
    const bool is_ok = value_in<std::string>(row.columns, "status") == "ok";
    if (is_ok && case_at(row.index).study == Study::dtypes) finished.push_back(row.columns);
  }
  return dtypes_by_precision(finished);
}

std::vector<ShownColumn> PrecisionExperiment::shown_columns() const {
  return {{"sum", "sum", "{:#.6g}"},
          {"sum_error", "error", "{:.1e}"},
          {"addend_error", "of the addend", "{:.1e}"},
          {"rounding_error", "of additions", "{:.1e}"},
          {"rounding_bound", "bound", "{:.1e}"},
          {"components", "components"},
          {"as_autocast", "as autocast"},
          {"input_error", "of the input", "{:.1e}"},
          {"float32_statistics_error", "float32 statistics", "{:.1e}"},
          {"rounded_statistics_error", "rounded statistics", "{:.1e}"}};
}

std::string PrecisionExperiment::notes() const {
  std::string text;
  std::set<Study> noted;
  for (std::size_t i = 0; i < case_count(); ++i) {
    const Study study = case_at(i).study;
    if (noted.insert(study).second) text += notes_of(study);
  }
  return text;
}

}  // namespace paceline
