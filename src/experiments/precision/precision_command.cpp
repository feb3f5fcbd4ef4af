// The factors, presets and command of `precision`.

#include <limits>

#include "experiments/precision/precision.h"
#include "experiments/rank_command.h"

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

std::unique_ptr<Command> precision_command() {
  return std::make_unique<RankCommand<PrecisionCase>>(precision_case_factors(), precision_presets(),
                                                      precision_experiment, false);
}

}  // namespace paceline
