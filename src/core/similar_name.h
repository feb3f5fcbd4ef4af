#pragma once
// The probable intention behind an unknown name.

#include <span>
#include <string>
#include <string_view>

namespace paceline {

// " (did you mean small?)": the name with the smallest edit distance (insertions, deletions,
// substitutions, transpositions of neighbours), or the only one that begins with `name`; empty if
// no name is close.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string_view> names);

}  // namespace paceline
