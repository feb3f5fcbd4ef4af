#pragma once
#include <vector>

namespace paceline {

struct Interval {
  double begin = 0;
  double end = 0;
};

// The union as disjoint intervals, sorted.
[[nodiscard]] std::vector<Interval> union_of(std::vector<Interval> intervals);
// The sum of the lengths.
[[nodiscard]] double length_of(const std::vector<Interval>& intervals);
// The length of `intervals` that is covered by the union of `by`.
[[nodiscard]] double covered_length(const std::vector<Interval>& intervals,
                                    const std::vector<Interval>& by);

}  // namespace paceline
