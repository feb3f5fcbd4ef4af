#pragma once
#include <vector>

namespace paceline {

struct Interval {
  double begin = 0;
  double end = 0;
};

// The same points of time as disjoint intervals, in order.
[[nodiscard]] std::vector<Interval> union_of(std::vector<Interval> intervals);
// The sum of the lengths.
[[nodiscard]] double length_of(const std::vector<Interval>& intervals);
// How much of the length of `intervals` lies within any of `by`.
[[nodiscard]] double covered_length(const std::vector<Interval>& intervals,
                                    const std::vector<Interval>& by);

}  // namespace paceline
