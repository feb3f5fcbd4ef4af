#pragma once
// What was probably meant by a name that is unknown.

#include <span>
#include <string>
#include <string_view>

namespace paceline {

// " (did you mean small?)": the name of the least edit distance (insertions, deletions, changes
// and swaps of neighbours), or the only one that begins with `name`; empty where none is near.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string_view> names);

}  // namespace paceline
