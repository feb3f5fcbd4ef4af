#include "record/warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "record/text_layout.h"

namespace paceline {

namespace {

std::string_view meaning_of(WarningKind kind) {
  switch (kind) {
    case WarningKind::wide_interval:
      return "the 95% interval is wider than 5% of the median; take more repetitions (--steps, "
             "--until-ci) on a quieter machine";
    case WarningKind::two_modes:
      return "the times fall into two groups, so that the median is one of either; look at "
             "samples/";
    case WarningKind::trend:
      return "the times drift from the first half to the second; warm up for longer (--max-warmup)";
    case WarningKind::not_converged:
      return "--max-steps was reached before --until-ci or --min-time; allow more repetitions";
    case WarningKind::clocks_limited:
      return "power or temperature limited the clocks; clocks/ has the readings of every "
             "repetition";
    case WarningKind::other_load:
      return "other programs used the cores; measure on an idle machine";
    case WarningKind::oversubscribed:
      return "ranks have more threads than cores; start fewer ranks, or give them fewer --threads";
    case WarningKind::cpu_quota:
      return "a control group limits the time of the cores; measure without a limit (cpu.max)";
    case WarningKind::old_blas_kernels:
      return "the BLAS computes with kernels for an older processor; paceline info names the "
             "OPENBLAS_CORETYPE to set";
    case WarningKind::one_rank:
      return "a single rank communicates with no other; start more ranks (mpirun -np N)";
    case WarningKind::skipped_steps:
      return "gradients overflowed fp16, so that steps ended without an update and their optimizer "
             "times are too short; warm up for longer (--warmup), until the loss scale has settled";
    case WarningKind::above_ceiling:
      return "matrix products ran faster than the ceiling measured in this run, the data sheet or "
             "--peak-tflops allows, so that one of them is wrong; measure again on an idle "
             "machine, or correct --peak-tflops";
  }
  return "";
}

bool names_kind(std::string_view kinds, std::string_view kind) {
  while (!kinds.empty()) {
    const std::size_t comma = kinds.find(',');
    if (kinds.substr(0, comma) == kind) return true;
    kinds.remove_prefix(comma == std::string_view::npos ? kinds.size() : comma + 1);
  }
  return false;
}

}  // namespace

std::string kinds_text(const std::vector<Warning>& warnings) {
  std::string kinds;
  for (const Warning& w : warnings) {
    kinds += fmt::format("{}{}", kinds.empty() ? "" : ",", name_of(w.kind));
  }
  return kinds;
}

std::string warnings_text(const std::vector<Warning>& warnings) {
  std::string text;
  for (const Warning& w : warnings) text += (text.empty() ? "" : "; ") + w.text;
  return text;
}

std::string warning_lines(const std::vector<std::pair<std::string, std::string>>& cases) {
  constexpr std::size_t max_named = 3;
  std::string lines;
  for (const std::string_view kind : names_of(WarningKind{})) {
    std::vector<std::string_view> names;
    for (const auto& [name, kinds] : cases) {
      if (names_kind(kinds, kind)) names.push_back(name);
    }
    if (names.empty()) continue;
    const std::size_t count = names.size();
    const std::string more = count > max_named ? fmt::format("; {} more", count - max_named) : "";
    names.resize(std::min(count, max_named));
    const std::string which = cases.size() == 1
                                  ? ""
                                  : fmt::format(" ({} of {} cases: {}{})", count, cases.size(),
                                                fmt::join(names, "; "), more);
    lines += wrapped(fmt::format("warning: {}{}: {}", kind, which,
                                 meaning_of(enum_named<WarningKind>(kind)))) +
             "\n";
  }
  return lines;
}

}  // namespace paceline
