#include "experiments/precision/precision.h"

#include <fmt/format.h>

#include "experiments/precision/accumulation.h"
#include "experiments/precision/component_dtypes.h"
#include "experiments/precision/norm_error.h"
#include "experiments/precision/number_bits.h"
#include "harness/attention_factors.h"
#include "harness/case_run.h"

namespace paceline {

PrecisionExperiment::PrecisionExperiment(const FactorOptions<PrecisionCase>& options, World& world,
                                         Device& device)
    : world_(world), device_(device) {
  set_cases(options.factors(), options.cases([&](PrecisionCase& c) {
    complete_launch(c, world, device);
    const bool is_named = options.by_name("--precision");
    return is_named || c.precision.gemm == GemmMath::exact || c.device == DeviceKind::cuda;
  }));
}

bool PrecisionExperiment::has(Study study) const {
  for (std::size_t i = 0; i < case_count(); ++i) {
    if (case_at(i).study == study) return true;
  }
  return false;
}

Prediction PrecisionExperiment::prediction(const PrecisionCase& c) const {
  const auto numbers = static_cast<double>(c.count);
  switch (c.study) {
    case Study::accumulation:
      return {.flops = numbers,
              .bytes = numbers * sizeof(float),
              .memory_bytes = accumulation_memory(c)};
    case Study::norms: return {.memory_bytes = norm_memory(c)};
    case Study::bits:
    case Study::dtypes: break;
  }
  return {};
}

void PrecisionExperiment::check(const PrecisionCase& c) const {
  check_precision(c.precision, c.device);
}

void PrecisionExperiment::add_study(CaseRecord& record, const PrecisionCase& c) {
  const auto seed = static_cast<std::uint64_t>(c.seed);
  switch (c.study) {
    case Study::accumulation: return add_accumulated(record, accumulate(device_, c));
    case Study::bits: return add_bits(record, c);
    case Study::dtypes: return add_dtypes(record, c, run_logged_step(device_, c, seed));
    case Study::norms: return add_norm_errors(record, norm_errors(device_, c, seed));
  }
}

CaseRecord PrecisionExperiment::measure(const PrecisionCase& c, Progress& /*progress*/) {
  CaseRecord refused;
  CaseRecord record;
  device_.trim();
  const auto study = [&] { add_study(record, c); };
  if (!fits_in_memory(world_, refused, prediction(c), study)) return refused;
  record.status = world_.agree(record.status);
  return record;
}

std::vector<Table> PrecisionExperiment::closing_tables(const std::vector<SummaryRow>& rows) const {
  const auto ok = [&](Study study) {
    std::vector<Row> of_study;
    for (const SummaryRow& row : rows) {
      if (case_at(row.index).study != study) continue;
      if (value_in<std::string>(row.columns, "status") == "ok") of_study.push_back(row.columns);
    }
    return of_study;
  };
  std::vector<Table> tables = dtypes_by_precision(ok(Study::dtypes));
  const std::vector<Table> breaks = norm_breaks(ok(Study::norms));
  tables.insert(tables.end(), breaks.begin(), breaks.end());
  return tables;
}

std::vector<ShownColumn> PrecisionExperiment::shown_columns() const {
  return {{"sum", "sum", "{:#.6g}"},
          {"sum_error", "error", "{:.1e}"},
          {"addend_error", "of the addend", "{:.1e}"},
          {"rounding_error", "of additions", "{:.1e}"},
          {"rounding_bound", "bound", "{:.1e}"},
          {"sign_bit", "sign"},
          {"exponent_bits", "exponent"},
          {"mantissa_bits", "mantissa"},
          {"rounded", "value", "{:.10g}"},
          {"rounded_error", "error", "{:.3g}"},
          {"number_kind", "kind"},
          {"components", "components"},
          {"as_autocast", "as autocast"},
          {"logged_operands", "operands"},
          {"input_error", "of the input", "{:.1e}"},
          {"float32_statistics_error", "float32 statistics", "{:.1e}"},
          {"rounded_statistics_error", "rounded statistics", "{:.1e}"}};
}

std::string PrecisionExperiment::notes() const {
  std::string text;
  if (has(Study::accumulation)) {
    text +=
        "accumulation: relative errors. error: of the sum, relative to count x addend; of the "
        "addend: from rounding it; of additions: of the sum, relative to the exact sum of the "
        "rounded addends; bound: Higham's bound on the error of additions, u being the unit "
        "roundoff of the sum's dtype: sequential (n - 1) u, pairwise ceil(log2 n) u, blocked (32 + "
        "n / 32 - 2) u, compensated 2 u + O(n u^2).\n";
  }
  if (has(Study::bits)) {
    text +=
        "bits: rounded to nearest, ties to even; numbers beyond the largest become infinity or, in "
        "e4m3, which has none, NaN.\n";
  }
  if (has(Study::dtypes)) {
    text +=
        "dtypes: of the operands of the operations of a training step. Published answers for the "
        "toy model under fp16 differ in two cells. Logits: one says float32, but they are a "
        "Linear's output, and autocast runs Linear in float16. Loss: one says float16, but "
        "autocast "
        "runs mse_loss and cross_entropy in float32.\n";
  }
  if (has(Study::norms)) {
    text += fmt::format(
        "norms: relative errors. of the input: of the float64 norm, from rounding its input to the "
        "half type; float32 statistics, rounded statistics: of the norm of the rounded input, with "
        "float32 statistics or with every operation rounded to the half type. norm_breaks: the "
        "longest run of measured scales at which these errors are at most {:g}, and the next scale "
        "above it.\n",
        norm_breaks_above);
  }
  return text;
}

}  // namespace paceline
