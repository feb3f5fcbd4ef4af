#pragma once
// `paceline precision`: numerical effects of mixed precision. Nothing is timed. All ranks compute
// the same; rank 0's results are recorded. A case has a study, and the factors of that study.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/precision.h"
#include "harness/experiment.h"
#include "harness/factor_options.h"
#include "harness/run_options.h"

namespace paceline {

enum class Study : std::uint8_t { accumulation, dtypes, norms };
constexpr auto names_of(Study) { return names("accumulation", "dtypes", "norms"); }

enum class Summation : std::uint8_t {
  sequential,   // ((x0 + x1) + x2) + ...
  pairwise,     // the halves of a binary tree
  blocked,      // blocks of 32 sequentially, then the blocks' sums sequentially
  compensated,  // Kahan: sequential, each addition corrected by the error of the last
};
constexpr auto names_of(Summation) {
  return names("sequential", "pairwise", "blocked", "compensated");
}

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

// The number of `dtype`, at most float32, that is nearest to x. The float32 sum of two half
// numbers, rounded, is the half number nearest to their sum.
[[nodiscard]] float nearest(Dtype dtype, float x);
// The sum of at least one number in a fixed order of additions, each rounded to `dtype` as IEEE 754
// prescribes: a GPU gives the same bits.
[[nodiscard]] float sum_of(Summation how, std::span<const float> x, Dtype dtype);

// Sums `count` equal addends; records the sum beside the exact one and Higham's bound.
void add_accumulation(CaseRecord& record, const PrecisionCase& c);

// Tensors of a training step by name, "logits", or by an operation's scope and the index of its
// tensor, "block 0/ffn/rms_norm 1".
using DtypeLog = std::map<std::string, std::set<Dtype>>;
// Runs a training step of the model. Throws OutOfMemory.
[[nodiscard]] DtypeLog logged_step(Device& device, const PrecisionCase& c, std::uint64_t seed);
// Runs a training step of the model and records the dtype of every component. Sets the status
// `mismatch` if one differs from PyTorch's autocast without a note. Throws OutOfMemory.
void add_dtypes(CaseRecord& record, Device& device, const PrecisionCase& c, std::uint64_t seed);
// Table "dtypes" from the summary's rows of this study: one row per model and component, one column
// per precision. Empty without such rows.
[[nodiscard]] std::vector<Table> dtypes_by_precision(const std::vector<Row>& summary);

// Records the errors of norms in a half type, relative to float64: from rounding the input, with
// float32 statistics, as under autocast, and with every operation rounded. A relative error is the
// Euclidean norm of the difference over that of the reference; infinite if a result is not finite.
void add_norm_errors(CaseRecord& record, const PrecisionCase& c, std::uint64_t seed);

}  // namespace paceline
