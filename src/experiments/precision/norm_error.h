#pragma once
// Errors of LayerNorm and RMSNorm in a half type, relative to float64, over the input's scale and
// mean.

#include "core/device.h"
#include "experiments/precision/precision_case.h"
#include "record/case_record.h"

namespace paceline {

// Relative errors: the Euclidean norm of the difference over that of the reference; infinite if a
// result is not finite.
struct NormErrors {
  double input = 0;    // from rounding the input: both norms in float64
  double float32 = 0;  // of the device's norm with float32 statistics, as under autocast
  double rounded = 0;  // of the norm with every operation rounded to the half type
};

// Bytes of device memory that norm_errors() needs.
[[nodiscard]] double norm_memory(const NormsFactors& c);
// The reference of `float32` and `rounded` is the float64 norm of the rounded input. Throws
// OutOfMemory.
[[nodiscard]] NormErrors norm_errors(Device& device, const NormsFactors& c, std::uint64_t seed);

void add_norm_errors(CaseRecord& record, const NormErrors& errors);

// A norm breaks at a scale if its error is above this.
inline constexpr double norm_breaks_above = 0.1;
// Table "norm_breaks" from the summary's rows of this study: for each norm, the longest run of
// measured scales at which it does not break, and the next scale above, at which it breaks. Empty
// without such rows.
[[nodiscard]] std::vector<Table> norm_breaks(const std::vector<Row>& summary);

}  // namespace paceline
