#pragma once
// LayerNorm and RMSNorm in a half type beside float64, over the input's scale and mean.

#include "core/device.h"
#include "experiments/precision/precision_case.h"
#include "record/case_record.h"

namespace paceline {

// Relative: the Euclidean norm of the difference over that of the reference; infinite where a
// result is not finite.
struct NormErrors {
  double input = 0;    // of the norm of the rounded input, in float64, beside that of the input
  double float32 = 0;  // of the device's norm, with statistics in float32, as autocast has it
  double rounded = 0;  // of the norm with every operation rounded to the half type
};

// Bytes on the device.
[[nodiscard]] double norm_memory(const NormsFactors& c);
// The latter two beside float64 of the rounded input. Throws OutOfMemory.
[[nodiscard]] NormErrors norm_errors(Device& device, const NormsFactors& c, std::uint64_t seed);

void add_norm_errors(CaseRecord& record, const NormErrors& errors);

// A norm is taken to break where its error is above this.
inline constexpr double norm_breaks_above = 0.1;
// "norm_breaks", of the summary's rows of this study: of each norm the longest run of scales, of
// those tried, at which it does not break, and the next above, at which it does. Nothing where
// there are none.
[[nodiscard]] std::vector<Table> norm_breaks(const std::vector<Row>& summary);

}  // namespace paceline
