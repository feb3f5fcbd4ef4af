#pragma once
// The factors of a case of `precision`: a study, and the factors of that study.

#include <bit>
#include <cstdint>
#include <string>

#include "core/precision.h"
#include "core/rounded_norm.h"
#include "core/summation.h"
#include "experiments/precision/float_format.h"
#include "harness/factor_options.h"
#include "harness/run_options.h"

namespace paceline {

enum class Study : std::uint8_t { accumulation, bits, dtypes, norms };
constexpr auto names_of(Study) { return names("accumulation", "bits", "dtypes", "norms"); }

// The dtypes of the addends and of the sum. fp16-into-fp32: float16 addends are added to a float32
// sum. fp16-upcast: the addends are cast to float32 before they are added. bf16 likewise.
enum class Arithmetic : std::uint8_t {
  fp32,
  fp16,
  fp16_into_fp32,
  fp16_upcast,
  bf16,
  bf16_into_fp32,
};
constexpr auto names_of(Arithmetic) {
  return names("fp32", "fp16", "fp16-into-fp32", "fp16-upcast", "bf16", "bf16-into-fp32");
}

// The course's toy model (Linear 10, ReLU, LayerNorm, Linear), or the tiny Transformer.
enum class StudiedModel : std::uint8_t { toy, transformer };
constexpr auto names_of(StudiedModel) { return names("toy", "transformer"); }

// Any number, infinities and NaN included.
struct AnyNumber {
  double value = 0;

  // Bitwise, so that NaN equals itself.
  [[nodiscard]] bool operator==(const AnyNumber& other) const {
    return std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(other.value);
  }
};
template <>
struct FactorValue<AnyNumber> {
  static constexpr ValueType type = ValueType::real;
  static AnyNumber read(std::string_view text, const Range& range);
  // As text, since a NaN attribute of a file would not compare equal to itself.
  static Value write(AnyNumber number) { return fmt::format("{}", number.value); }
  static std::string choices() { return "inf nan"; }
};

struct StudyFactor {
  Study study = Study::accumulation;

  [[nodiscard]] bool operator==(const StudyFactor&) const = default;
};

struct AccumulationFactors {
  std::int64_t count = 1000;
  double addend = 0.01;
  Summation summation = Summation::sequential;
  Arithmetic arithmetic = Arithmetic::fp32;

  [[nodiscard]] bool operator==(const AccumulationFactors&) const = default;
};

struct BitsFactors {
  AnyNumber number = {9.75};
  Format format = Format::fp32;

  [[nodiscard]] bool operator==(const BitsFactors&) const = default;
};

struct DtypesFactors {
  Precision precision = precision_named("fp32");
  StudiedModel model = StudiedModel::toy;

  [[nodiscard]] bool operator==(const DtypesFactors&) const = default;
};

struct NormsFactors {
  NormKind norm = NormKind::layer_norm;
  Dtype norm_dtype = Dtype::f16;
  double mean = 0;   // of the input, in units of scale
  double scale = 1;  // standard deviation of the input
  std::int64_t width = 768;

  [[nodiscard]] bool operator==(const NormsFactors&) const = default;
};

struct PrecisionCase : StudyFactor,
                       AccumulationFactors,
                       BitsFactors,
                       DtypesFactors,
                       NormsFactors,
                       LaunchFactors {
  [[nodiscard]] bool operator==(const PrecisionCase&) const = default;
};

[[nodiscard]] Factors<PrecisionCase> precision_case_factors();
[[nodiscard]] const Presets& precision_presets();

}  // namespace paceline
