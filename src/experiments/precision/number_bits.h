#pragma once
#include "experiments/precision/precision_case.h"
#include "record/case_record.h"

namespace paceline {

// Records the number's bits in the format, its rounded value and the rounding error.
void add_bits(CaseRecord& record, const BitsFactors& c);

}  // namespace paceline
