#include "measure/intervals.h"

#include <algorithm>
#include <utility>

namespace paceline {

std::vector<Interval> union_of(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> disjoint;
  for (const Interval& interval : intervals) {
    if (disjoint.empty() || interval.begin > disjoint.back().end) {
      disjoint.push_back(interval);
    } else {
      disjoint.back().end = std::max(disjoint.back().end, interval.end);
    }
  }
  return disjoint;
}

double length_of(const std::vector<Interval>& intervals) {
  double length = 0;
  for (const Interval& interval : intervals) length += interval.end - interval.begin;
  return length;
}

double covered_length(const std::vector<Interval>& intervals, const std::vector<Interval>& by) {
  const std::vector<Interval> cover = union_of(by);
  double covered = 0;
  for (const Interval& interval : intervals) {
    auto next = std::partition_point(cover.begin(), cover.end(), [&](const Interval& part) {
      return part.end <= interval.begin;
    });
    for (; next != cover.end() && next->begin < interval.end; ++next) {
      covered += std::min(next->end, interval.end) - std::max(next->begin, interval.begin);
    }
  }
  return covered;
}

}  // namespace paceline
