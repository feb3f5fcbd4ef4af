#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "core/text.h"
#include "record/case_record.h"

namespace paceline {

std::string kinds_text(const std::vector<Warning>& warnings) {
  const auto name = [](const Warning& w) { return w.kind.name; };
  return fmt::format("{}", fmt::join(std::views::transform(warnings, name), ","));
}

std::string warnings_text(const std::vector<Warning>& warnings) {
  return fmt::format("{}", fmt::join(std::views::transform(warnings, &Warning::text), "; "));
}

std::string warning_lines(const std::vector<std::pair<std::string, std::string>>& cases) {
  constexpr std::size_t max_named = 3;
  std::string lines;
  for (const auto& [kind, meaning] : warning::all) {
    std::vector<std::string> names;
    for (const auto& [name, kinds] : cases) {
      if (std::ranges::count(split(kinds, ','), kind) > 0) names.push_back(name);
    }
    if (names.empty()) continue;
    const std::size_t count = names.size();
    names.resize(std::min(count, max_named));
    if (count > max_named) names.push_back(fmt::format("{} more", count - max_named));
    const std::string which =
        fmt::format(" ({} of {} cases: {})", count, cases.size(), fmt::join(names, "; "));
    lines +=
        wrapped(fmt::format("warning: {}{}: {}", kind, cases.size() == 1 ? "" : which, meaning)) +
        "\n";
  }
  return lines;
}

}  // namespace paceline
