#include "core/enum_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "core/error.h"

namespace paceline {

namespace {

// Damerau-Levenshtein distance (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::size_t index_of_name(std::span<const std::string_view> names, std::string_view name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) {
    throw UsageError(fmt::format("'{}' is unknown; choose {}{}", name, fmt::join(names, ", "),
                                 did_you_mean(name, names)));
  }
  return static_cast<std::size_t>(it - names.begin());
}

void throw_unnamed(std::size_t value) {
  throw InternalError(fmt::format("an enum's value {} has no name", value));
}

std::string joined_names(std::span<const std::string_view> names) {
  return fmt::format("{}", fmt::join(names, " "));
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> names) {
  constexpr std::size_t longest = 64;
  if (name.empty() || name.size() > longest) return "";
  std::size_t least = std::max<std::size_t>(1, name.size() / 3);
  std::vector<std::string_view> nearest;
  for (const std::string_view candidate : names) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance > least) continue;
    if (distance < least) nearest.clear();
    least = distance;
    nearest.push_back(candidate);
  }
  if (nearest.empty()) {
    std::ranges::copy_if(names, std::back_inserter(nearest),
                         [&](std::string_view candidate) { return candidate.starts_with(name); });
  }
  return nearest.size() == 1 ? fmt::format(" (did you mean {}?)", nearest.front()) : "";
}

}  // namespace paceline
