#pragma once
// `paceline precision`: numerical effects of mixed precision. Nothing is timed. All ranks compute
// the same; rank 0's results are recorded. A case has a study, and the factors of that study.

#include <cstdint>
#include <memory>

#include "core/precision.h"
#include "experiments/precision/summation.h"
#include "harness/experiment.h"
#include "harness/factor_options.h"
#include "harness/run_options.h"

namespace paceline {

enum class Study : std::uint8_t { accumulation, dtypes, norms };
constexpr auto names_of(Study) { return names("accumulation", "dtypes", "norms"); }

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

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
constexpr auto names_of(NormKind) { return names("layer_norm", "rms_norm"); }

struct StudyFactors {
  Study study = Study::accumulation;
  // accumulation
  std::int64_t count = 1000;
  double addend = 0.01;
  Summation summation = Summation::sequential;
  Arithmetic arithmetic = Arithmetic::fp32;
  // dtypes
  Precision precision = precision_named("fp32");
  StudiedModel model = StudiedModel::toy;
  // norms
  NormKind norm = NormKind::layer_norm;
  Dtype norm_dtype = Dtype::f16;
  double mean = 0;   // of the input, in units of scale
  double scale = 1;  // standard deviation of the input
  std::int64_t width = 768;

  [[nodiscard]] bool operator==(const StudyFactors&) const = default;
};

struct PrecisionCase : StudyFactors, LaunchFactors {
  [[nodiscard]] bool operator==(const PrecisionCase&) const = default;
};

[[nodiscard]] Factors<PrecisionCase> precision_case_factors();

// Throws UsageError for an option that applies to no case. No figure has a peak.
[[nodiscard]] std::unique_ptr<Experiment> precision_experiment(
    const FactorOptions<PrecisionCase>& options, World& world, Device& device, double peak_tflops);

}  // namespace paceline
