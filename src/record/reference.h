#pragma once
// Values that results must reach: `paceline compare A.h5 B.h5 --reference F.toml`. The file is a
// list of
//
//   [[value]]
//   case = { size = "small", context = 512 }   # factors that one case of the results has
//   column = "tokens_per_s"                    # of the summary
//   value = 46510
//   tolerance = 5                              # percent of the value
//   better = "higher"                          # or "lower"

#include <cstdint>
#include <string>
#include <vector>

#include "core/enum_names.h"
#include "record/compared_file.h"

namespace paceline {

enum class Better : std::uint8_t { higher, lower };
constexpr auto names_of(Better) { return names("higher", "lower"); }

struct ReferenceValue {
  Case factors;
  std::string column;
  double value = 0;
  double tolerance = 0;  // percent of the value
  Better better = Better::higher;
};

struct ReferenceResult {
  ReferenceValue reference;
  // regression: worse by more than the tolerance, or the case failed; better: by more than the
  // tolerance; missing: no case has the factors.
  enum class Verdict : std::uint8_t { regression, within, better, missing };
  Verdict verdict = Verdict::missing;
  double measured = 0;  // the median over files; NaN if there is none
};
constexpr auto names_of(ReferenceResult::Verdict) {
  return names("regression", "within", "better", "missing");
}

// Throws UsageError, with the position in the file, for any other contents.
[[nodiscard]] std::vector<ReferenceValue> read_reference(const std::string& path);

// Compares the runs with a reference value. Throws UsageError if no case has a factor of this name,
// if several cases of a file have the factors, or if the column has no numbers.
[[nodiscard]] ReferenceResult held_to(const ReferenceValue& reference,
                                      const std::vector<ComparedFile>& runs);

}  // namespace paceline
