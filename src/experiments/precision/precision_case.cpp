#include "experiments/precision/precision_case.h"

#include <cmath>
#include <limits>

namespace paceline {

namespace {

using C = PrecisionCase;

bool accumulates(const C& c) { return c.study == Study::accumulation; }
bool shows_bits(const C& c) { return c.study == Study::bits; }
bool shows_dtypes(const C& c) { return c.study == Study::dtypes; }
bool norms_rows(const C& c) { return c.study == Study::norms; }

Factors<C> accumulation_factors() {
  constexpr std::string_view study = "--study accumulation";
  return factors_of<AccumulationFactors>(
      axis<C>(&C::count, "count", "number of addends")
          .from(1, 1 << 24)
          .only_where(accumulates, study),
      axis<C>(&C::addend, "addend", "value of every addend")
          .from(-1e30, 1e30)
          .only_where(accumulates, study),
      axis<C>(&C::summation, "summation",
              "algorithm; blocked: sums of blocks of 32, then their sum; compensated: Kahan's")
          .by_default("sequential,pairwise,blocked,compensated")
          .only_where(accumulates, study),
      axis<C>(&C::arithmetic, "arithmetic",
              "dtypes of addends and sum; fp16-into-fp32: float16 addends, float32 sum; "
              "fp16-upcast: the addends are cast to float32 first")
          .by_default("fp32,fp16,fp16-into-fp32,fp16-upcast,bf16,bf16-into-fp32")
          .only_where(accumulates, study));
}

Factors<C> bits_factors() {
  constexpr std::string_view study = "--study bits";
  return factors_of<BitsFactors>(
      axis<C>(&C::number, "number", "number to encode: any number, inf or nan")
          .from(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max())
          .only_where(shows_bits, study),
      axis<C>(&C::format, "float_format", "format to encode it in; e4m3, e5m2: 8-bit formats")
          .by_default("fp32,tf32,bf16,fp16,e4m3,e5m2")
          .only_where(shows_bits, study));
}

Factors<C> dtypes_factors() {
  constexpr std::string_view study = "--study dtypes";
  return factors_of<DtypesFactors>(
      axis<C>(&C::precision, "precision", "precision of the training step (tf32 needs a GPU)")
          .by_default("fp32,tf32,bf16,fp16")
          .described_default("those the device supports")
          .only_where(shows_dtypes, study),
      axis<C>(&C::model, "model", "toy: Linear 10, ReLU, LayerNorm, Linear; transformer: tiny")
          .by_default("toy,transformer")
          .only_where(shows_dtypes, study));
}

Factors<C> norms_factors() {
  constexpr std::string_view study = "--study norms";
  constexpr double most = 1e30;
  return factors_of<NormsFactors>(
      axis<C>(&C::norm, "norm", "norm, applied to rows of random numbers")
          .by_default("layer_norm,rms_norm")
          .only_where(norms_rows, study),
      axis_among<C>(&C::norm_dtype, "norm_dtype", "dtype of the norm's input and output",
                    {{"fp16", Dtype::f16}, {"bf16", Dtype::bf16}})
          .by_default("fp16,bf16")
          .only_where(norms_rows, study),
      axis<C>(&C::mean, "mean", "mean of the input, in units of --scale")
          .from(-most, most)
          .by_default("0,100")
          .only_where(norms_rows, study),
      axis<C>(&C::scale, "scale", "standard deviation of the input")
          .from(std::numeric_limits<double>::min(), most)
          .by_default("1e-6..1e6*100")
          .only_where(norms_rows, study),
      setting<C>(&C::width, "width", "elements per row")
          .from(1, 1 << 20)
          .only_where(norms_rows, study)
          .naming());
}

}  // namespace

AnyNumber FactorValue<AnyNumber>::read(std::string_view text, const Range& range) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (text == "nan") return {std::numeric_limits<double>::quiet_NaN()};
  if (text == "inf") return {infinity};
  if (text == "-inf") return {-infinity};
  return {parse_real(text, range.least, range.most)};
}

Factors<C> precision_case_factors() {
  const Factors<C> study = factors_of<StudyFactor>(
      axis<C>(&C::study, "study",
              "accumulation: rounding errors of sums; bits: a number in each format; dtypes: of a "
              "model's tensors, compared with autocast; norms: errors of LayerNorm and RMSNorm")
          .by_default("accumulation,bits,dtypes,norms"));
  return joined<C>({study, accumulation_factors(), bits_factors(), dtypes_factors(),
                    norms_factors(), launch_factors<C>()});
}

// Every preset pins every factor.
const Presets& precision_presets() {
  constexpr const char* rest =
      " --count 1000 --addend 0.01 --number 9.75 --float-format fp32,tf32,bf16,fp16,e4m3,e5m2 "
      "--precision fp32,bf16,fp16 --model toy,transformer --norm layer_norm,rms_norm "
      "--norm-dtype fp16,bf16 --mean 0,100 --width 768 --seed 0 --deterministic no";
  static const Presets presets = {
      {"course",
       std::string("--study accumulation,bits,dtypes,norms --summation sequential "
                   "--arithmetic fp32,fp16,fp16-into-fp32,fp16-upcast,bf16 --scale 1e-6..1e6*100") +
           rest},
      {"breaks", std::string("--study norms --summation sequential --arithmetic fp32 "
                             "--scale 1e-8..1e6*2") +
                     rest}};
  return presets;
}

}  // namespace paceline
