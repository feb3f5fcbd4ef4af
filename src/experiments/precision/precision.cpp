#include "experiments/precision/precision.h"

#include <limits>
#include <set>

#include "experiments/rank_command.h"
#include "harness/attention_factors.h"
#include "harness/case_run.h"

namespace paceline {

namespace {

using C = PrecisionCase;

template <Study study>
Factor<C> of(Factor<C> f) {
  static const std::string option = fmt::format("--study {}", name_of(study));
  return f.only_where([](const C& c) { return c.study == study; }, option);
}

const Presets& precision_presets() {
  static const Presets presets = {
      {"course",
       "--summation sequential --arithmetic fp32,fp16,fp16-into-fp32,fp16-upcast,bf16 "
       "--precision fp32,bf16,fp16"},
      {"breaks", "--study norms --scale 1e-8..1e6*2"}};
  return presets;
}

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
             "to the half type; float32 statistics, rounded statistics: of the norm of the rounded "
             "input, with float32 statistics or with every operation rounded to the half type.\n";
  }
  throw_unnamed(static_cast<std::size_t>(study));
}

class PrecisionExperiment final : public ExperimentOf<PrecisionCase> {
 public:
  PrecisionExperiment(const FactorOptions<PrecisionCase>& options, World& world, Device& device)
      : world_(world), device_(device) {
    set_cases(options.factors(), options.cases([&](PrecisionCase& c) {
      complete_launch(c, world, device);
      const bool is_named = options.by_name("--precision");
      return is_named || c.precision.gemm == GemmMath::exact || c.device == DeviceKind::cuda;
    }));
  }

  [[nodiscard]] std::string name() const override { return "precision"; }
  [[nodiscard]] std::string splitting_factor() const override { return "study"; }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override {
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
  // "dtypes".
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<SummaryRow>& rows) const override {
    std::vector<Row> finished;
    for (const SummaryRow& row : rows) {
      const bool is_ok = value_in<std::string>(row.columns, "status") == "ok";
      if (is_ok && case_at(row.index).study == Study::dtypes) finished.push_back(row.columns);
    }
    return dtypes_by_precision(finished);
  }
  [[nodiscard]] std::string notes() const override {
    std::string text;
    std::set<Study> noted;
    for (std::size_t i = 0; i < case_count(); ++i) {
      const Study study = case_at(i).study;
      if (noted.insert(study).second) text += notes_of(study);
    }
    return text;
  }

 private:
  [[nodiscard]] Prediction prediction(const PrecisionCase& c) const override {
    return {.flops = c.study == Study::accumulation ? static_cast<double>(c.count) : 0};
  }
  void check(const PrecisionCase& c) const override { check_precision(c.precision, c.device); }
  [[nodiscard]] std::size_t device_memory(const PrecisionCase& /*c*/) const override {
    return device_.info().memory_bytes;
  }
  [[nodiscard]] CaseRecord measure(const PrecisionCase& c, Progress& /*progress*/) override {
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

  World& world_;
  Device& device_;
};

}  // namespace

Factors<C> precision_case_factors() {
  constexpr double most = 1e30;
  const Factors<C> study = factors_of<StudyFactors>(
      axis<C>(&C::study, "study",
              "accumulation: rounding errors of sums; dtypes: of a model's tensors, compared with "
              "autocast; norms: errors of LayerNorm and RMSNorm")
          .by_default("accumulation,dtypes,norms"),
      of<Study::accumulation>(axis<C>(&C::count, "count", "number of addends").from(1, 1 << 24)),
      of<Study::accumulation>(
          axis<C>(&C::addend, "addend", "value of every addend").from(-most, most)),
      of<Study::accumulation>(
          axis<C>(&C::summation, "summation",
                  "algorithm; blocked: sums of blocks of 32, then their sum; compensated: Kahan's")
              .by_default("sequential,pairwise,blocked,compensated")),
      of<Study::accumulation>(
          axis<C>(&C::arithmetic, "arithmetic",
                  "dtypes of addends and sum; fp16-into-fp32: float16 addends, float32 sum; "
                  "fp16-upcast: the addends are cast to float32 first")
              .by_default("fp32,fp16,fp16-into-fp32,fp16-upcast,bf16,bf16-into-fp32")),
      of<Study::dtypes>(
          axis<C>(&C::precision, "precision", "precision of the training step (tf32 needs a GPU)")
              .by_default("fp32,tf32,bf16,fp16")
              .described_default("those the device supports")),
      of<Study::dtypes>(
          axis<C>(&C::model, "model", "toy: Linear 10, ReLU, LayerNorm, Linear; transformer: tiny")
              .by_default("toy,transformer")),
      of<Study::norms>(axis<C>(&C::norm, "norm", "norm, applied to rows of random numbers")
                           .by_default("layer_norm,rms_norm")),
      of<Study::norms>(axis_among<C>(&C::norm_dtype, "norm_dtype",
                                     "dtype of the norm's input and output",
                                     {{"fp16", Dtype::f16}, {"bf16", Dtype::bf16}})
                           .by_default("fp16,bf16")),
      of<Study::norms>(axis<C>(&C::mean, "mean", "mean of the input, in units of --scale")
                           .from(-most, most)
                           .by_default("0,100")),
      of<Study::norms>(axis<C>(&C::scale, "scale", "standard deviation of the input")
                           .from(std::numeric_limits<double>::min(), most)
                           .by_default("1e-6..1e6*100")),
      of<Study::norms>(
          setting<C>(&C::width, "width", "elements per row").from(1, 1 << 20).naming()));
  return joined<C>({study, launch_factors<C>()});
}

std::unique_ptr<Experiment> precision_experiment(const FactorOptions<PrecisionCase>& options,
                                                 World& world, Device& device,
                                                 double /*peak_tflops*/) {
  return std::make_unique<PrecisionExperiment>(options, world, device);
}

std::unique_ptr<Command> precision_command() {
  return std::make_unique<RankCommand<PrecisionCase>>(precision_case_factors(), precision_presets(),
                                                      precision_experiment, false);
}

}  // namespace paceline
