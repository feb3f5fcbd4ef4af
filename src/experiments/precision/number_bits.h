#pragma once
#include "experiments/precision/precision_case.h"
#include "record/case_record.h"

namespace paceline {

// The number's bits in the format, the value that it is rounded to, and the error of that.
void add_bits(CaseRecord& record, const BitsFactors& c);

}  // namespace paceline
