#pragma once
// `paceline compare A.h5 B.h5`: case by case, is B faster or slower than A?

#include <filesystem>
#include <string>

namespace paceline {

struct Comparison {
  std::string table;        // printed as it is
  bool regression = false;  // a case of B is slower than in A, or no longer ok
};

// Cases are matched by their factors (but not by seed, steps and the like: those that describe how
// often was measured). By the 95% intervals of each case's headline phase: faster or slower when
// they do not overlap, same when they do and the medians differ by at most 2%, else undecided; a
// missing interval is undecided. Throws UsageError when a file cannot be read, when no case
// matches, and, unless any_machine, when device models, rank counts or hosts' CPU models differ.
[[nodiscard]] Comparison compare_files(const std::filesystem::path& a,
                                       const std::filesystem::path& b, bool any_machine);

}  // namespace paceline
