#pragma once
// Warnings: reasons to doubt a case's times. They are in its record and below the console table.

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline {

struct WarningKind {
  std::string_view name;
  std::string_view meaning;  // and what helps
};

namespace warning {

inline constexpr WarningKind wide_interval = {
    "wide_interval",
    "the 95% interval is wider than 5% of the median; take more repetitions (--steps, --until-ci) "
    "on a quieter machine"};
inline constexpr WarningKind two_modes = {
    "two_modes",
    "the times fall into two groups, so that the median is one of either; look at samples/"};
inline constexpr WarningKind trend = {
    "trend",
    "the times drift from the first half to the second; warm up for longer (--max-warmup)"};
inline constexpr WarningKind not_converged = {
    "not_converged",
    "--max-steps was reached before --until-ci or --min-time; allow more repetitions"};
inline constexpr WarningKind clocks_limited = {
    "clocks_limited",
    "power or temperature limited the clocks; clocks/ has the readings of every repetition"};
inline constexpr WarningKind other_load = {
    "other_load", "other programs used the cores; measure on an idle machine"};
inline constexpr WarningKind oversubscribed = {
    "oversubscribed",
    "ranks have more threads than cores; start fewer ranks, or give them fewer --threads"};
inline constexpr WarningKind one_rank = {
    "one_rank", "a single rank communicates with no other; start more ranks (mpirun -np N)"};
inline constexpr WarningKind cpu_quota = {
    "cpu_quota", "a control group limits the time of the cores; measure without a limit (cpu.max)"};
inline constexpr WarningKind old_blas_kernels = {
    "old_blas_kernels",
    "the BLAS computes with kernels for an older processor; paceline info names the "
    "OPENBLAS_CORETYPE to set"};
inline constexpr WarningKind skipped_steps = {
    "skipped_steps",
    "gradients overflowed fp16, so that steps ended without an update and their optimizer times "
    "are too short; warm up for longer (--warmup), until the loss scale has settled"};
inline constexpr WarningKind above_ceiling = {
    "above_ceiling",
    "matrix products ran faster than the ceiling measured in this run, the data sheet or "
    "--peak-tflops allows, so that one of them is wrong; measure again on an idle machine, or "
    "correct --peak-tflops"};
inline constexpr WarningKind timed_by_events = {
    "timed_by_events",
    "the profile is of events, which do not see into graphs; trace/ranks says why there are no "
    "records of kernels"};
inline constexpr WarningKind lost_records = {
    "lost_records", "the profiler lost records of kernels; profile fewer steps (--profile)"};
inline constexpr std::array all = {wide_interval,   two_modes,        trend,          not_converged,
                                   clocks_limited,  other_load,       oversubscribed, one_rank,
                                   cpu_quota,       old_blas_kernels, skipped_steps,  above_ceiling,
                                   timed_by_events, lost_records};

}  // namespace warning

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
