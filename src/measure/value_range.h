#pragma once
// Ranges of numbers for an axis: "128..65536*2", "64..512+64", "1..5".

#include <string>
#include <string_view>
#include <vector>

#include "measure/factors.h"

namespace paceline {

// For --help.
constexpr std::string_view range_syntax =
    "Options of the kind \"a..b\" also take ranges: 128..65536*2 doubles, 64..512+64 adds 64, 1..5 "
    "adds 1,\n1KB,4KB..1MB*4 is a value and a range. The end is included if reached exactly.";

// The values of "A..B*F", "A..B+S" or "A..B" (step 1), each as option text. Any other text, and any
// text if `type` is not a number, is returned as the only value. Sizes have units ("1KiB..1GiB*2");
// real numbers have 15 significant digits. Throws UsageError for ends outside `limits`, a first
// value above the last, a factor <= 1, a step of 0, and more than 10000 values.
[[nodiscard]] std::vector<std::string> values_of_range(std::string_view text, ValueType type,
                                                       const Range& limits);

}  // namespace paceline
