#include "experiments/training/communication_record.h"

#include <limits>
#include <string>
#include <vector>

#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// One interval of a step on a stream; seconds from the step's begin.
struct Interval {
  std::string stream;
  std::string scope;
  double begin;
  double end;
  double message_bytes;
  double sent_bytes;
};

std::vector<Interval> intervals_of(const StepRunner& runner, TrainingStep& step) {
  std::vector<Interval> intervals;
  const std::vector<EventPtr>& events = runner.events();
  const Event& origin = *events.front();
  const std::vector<std::string> phases = runner.phases();
  for (std::size_t i = 1; i < events.size(); ++i) {
    intervals.push_back({"compute", phases[i - 1], events[i - 1]->seconds_since(origin),
                         events[i]->seconds_since(origin), 0, 0});
  }
  for (const Exchange& e : step.strategy().exchanges()) {
    intervals.push_back({"communication", std::string(e.op) + " " + e.what,
                         e.begin->seconds_since(origin), e.end->seconds_since(origin),
                         static_cast<double>(e.message_bytes), e.sent_bytes});
  }
  return intervals;
}

double median_of(const CaseRecord& record, std::string_view phase) {
  for (const PhaseSamples& p : record.samples) {
    if (p.phase == phase) return summarize(max_over_ranks(p.measured)).median;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void add_communication(CaseRecord& record, World& world, const StepRunner& runner,
                       TrainingStep& step) {
  if (!step.strategy().communicates()) return;
  const std::vector<Interval> intervals = intervals_of(runner, step);
  std::vector<double> mine;
  double calls = 0;
  double message_bytes = 0;
  double sent_bytes = 0;
  for (const Interval& i : intervals) {
    mine.push_back(i.begin);
    mine.push_back(i.end);
    if (i.stream == "communication") ++calls;
    message_bytes += i.message_bytes;
    sent_bytes += i.sent_bytes;
  }
  const auto all = gather_values(world, mine);  // every rank has the same intervals
  if (world.rank() != 0) return;
  TableRows timeline("timeline");
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      timeline.add({{"rank", static_cast<std::int64_t>(r)},
                    {"stream", intervals[i].stream},
                    {"scope", intervals[i].scope},
                    {"begin", all[r][2 * i], "s"},
                    {"end", all[r][2 * i + 1], "s"},
                    {"message_bytes", intervals[i].message_bytes, "bytes"},
                    {"sent_bytes", intervals[i].sent_bytes, "bytes"}});
    }
  }
  record.tables.push_back(timeline.take());
  const double seconds = median_of(record, "step");
  record.add("communication_calls", calls);
  record.add("message_bytes", message_bytes, "bytes");
  record.add("sent_bytes", sent_bytes, "bytes");
  record.add("communication_share", median_of(record, "communication_total") / seconds);
  record.add("exposed_share", median_of(record, "communication_exposed") / seconds);
}

}  // namespace paceline
