#pragma once
// A number added up on the device, beside the exact sum and the bound that theory gives.

#include "core/device.h"
#include "experiments/precision/precision_case.h"
#include "record/case_record.h"

namespace paceline {

// Relative errors; 0 where both numbers are 0.
struct Accumulated {
  double sum = 0;
  double exact = 0;             // count times the addend, as it was given
  double addend_error = 0;      // of the addend, by its rounding
  double error = 0;             // of the sum, beside `exact`
  double rounding_error = 0;    // of the sum, beside the exact sum of the rounded addends
  double rounding_bound = 0;    // what theory gives for rounding_error, to first order
  double rounding_largest = 0;  // the same to every order; infinite where none is known
  double rounded_sum = 0;       // the exact sum of the rounded addends
  double largest = 0;           // finite number of the sum's dtype
  // Kahan's correction after an overflow is infinity minus infinity.
  bool nan_on_overflow = false;
};

// Bytes on the device.
[[nodiscard]] double accumulation_memory(const AccumulationFactors& c);
// Throws OutOfMemory.
[[nodiscard]] Accumulated accumulate(Device& device, const AccumulationFactors& c);

// mismatch where the error is above rounding_largest, or where the sum is not finite and neither an
// overflow nor the addend explains it.
void add_accumulated(CaseRecord& record, const Accumulated& result);

}  // namespace paceline
