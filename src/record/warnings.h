#pragma once
// Warnings: reasons to doubt a case's times. They are in its record and below the console table.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/enum_names.h"

namespace paceline {

enum class WarningKind : std::uint8_t {
  wide_interval,
  two_modes,
  trend,
  not_converged,
  clocks_limited,
  other_load,
  oversubscribed,
  one_rank,
  cpu_quota,
  old_blas_kernels,
  skipped_steps,
  above_ceiling,
};
constexpr auto names_of(WarningKind) {
  return names("wide_interval", "two_modes", "trend", "not_converged", "clocks_limited",
               "other_load", "oversubscribed", "one_rank", "cpu_quota", "old_blas_kernels",
               "skipped_steps", "above_ceiling");
}

struct Warning {
  WarningKind kind;
  std::string text;  // for this case, with its figures
};

// "wide_interval,trend"; empty for none.
[[nodiscard]] std::string kinds_text(const std::vector<Warning>& warnings);
// Every warning's text, joined by "; ".
[[nodiscard]] std::string warnings_text(const std::vector<Warning>& warnings);

// A line for each kind: the number of cases and their names, what the kind means and what helps.
// cases: {name, kinds_text}.
[[nodiscard]] std::string warning_lines(
    const std::vector<std::pair<std::string, std::string>>& cases);

}  // namespace paceline
