#pragma once
// Sums of equal addends on the device, compared with the exact sum and with Higham's error bound.

#include "core/device.h"
#include "experiments/precision/precision_case.h"
#include "record/case_record.h"

namespace paceline {

// Errors are relative; 0 if both numbers are 0.
struct Accumulated {
  double sum = 0;
  double exact = 0;             // count x addend, before rounding
  double addend_error = 0;      // of the rounded addend
  double error = 0;             // of the sum, relative to `exact`
  double rounding_error = 0;    // of the sum, relative to `rounded_sum`
  double rounding_bound = 0;    // bound on rounding_error, to first order in the unit roundoff
  double rounding_largest = 0;  // bound including higher orders; infinite if none is known
  double rounded_sum = 0;       // the exact sum of the rounded addends
  double largest = 0;           // the largest finite number of the sum's dtype
  // After an overflow, Kahan's correction is infinity - infinity.
  bool nan_on_overflow = false;
};

// Bytes of device memory that accumulate() needs.
[[nodiscard]] double accumulation_memory(const AccumulationFactors& c);
// Throws OutOfMemory.
[[nodiscard]] Accumulated accumulate(Device& device, const AccumulationFactors& c);

// Sets the status `mismatch` if rounding_error is above rounding_largest, or if the sum is not
// finite although neither the addend nor an overflow explains it.
void add_accumulated(CaseRecord& record, const Accumulated& result);

}  // namespace paceline
