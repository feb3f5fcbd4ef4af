#pragma once
// The output of `paceline compare`.

#include <string>

#include "record/compare.h"

namespace paceline {

// A table with a line per case: verdict, both times, their ratio with its interval, pairs and
// repetitions; then cases that cannot be compared, and the count of each verdict.
[[nodiscard]] std::string comparison_table(const Comparison& comparison);

// One line of JSON per case: its factors, verdict, {a,b}_{status,reason,median_s,repetitions},
// ratio, ratio_low, ratio_high, pairs. A case that cannot be compared has its factors and the
// verdict "only in A", "only in B" or "in no pair". A reference has its factors, column, reference,
// tolerance_percent, better, measured and verdict. NaN is null.
[[nodiscard]] std::string comparison_json(const Comparison& comparison);

}  // namespace paceline
