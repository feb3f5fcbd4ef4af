// Of a step that exchanges gradients: how often and how much, what of it is exposed, and a
// timeline.

#include <limits>
#include <utility>

#include "experiments/training/communication_times.h"
#include "experiments/training/model.h"
#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

void add_communication_times(PhaseSeconds& seconds, const std::vector<Exchange>& exchanges,
                             const std::vector<std::pair<EventPtr, EventPtr>>& waits) {
  constexpr std::size_t exposed = 2;  // after forward and backward
  for (const auto& [from, until] : waits) {
    seconds.at(exposed) += until->seconds_since(*from);
  }
  double total = 0;
  for (const Exchange& e : exchanges) total += e.end->seconds_since(*e.begin);
  seconds.insert(seconds.end() - 1, total);
}

// The phases on the compute stream, the exchanges on the communication stream.
std::vector<ModelExperiment::Interval> ModelExperiment::timeline_of(const Training& training) {
  std::vector<Interval> intervals;
  if (!training.exchange) return intervals;
  const std::vector<EventPtr>& marks = training.step->timer().events();
  const std::vector<std::string> phases = training.step->phases(*training.exchange);
  const auto add = [&](std::string stream, std::string name, const Event& begin, const Event& end,
                       std::size_t bytes, double sent) {
    intervals.push_back({.stream = std::move(stream),
                         .name = std::move(name),
                         .begin = begin.seconds_since(*marks.front()),
                         .end = end.seconds_since(*marks.front()),
                         .bytes = bytes,
                         .sent = sent});
  };
  for (std::size_t i = 1; i < marks.size(); ++i) {
    add("compute", phases[i - 1], *marks[i - 1], *marks[i], 0, 0);
  }
  for (const Exchange& e : training.exchange->exchanges()) {
    add("communication", std::string(e.op) + " " + e.what, *e.begin, *e.end, e.bytes, e.sent);
  }
  return intervals;
}

void ModelExperiment::add_communication(CaseRecord& record, const Outcome& outcome) const {
  std::vector<double> mine;
  double calls = 0;
  double bytes = 0;
  double sent_bytes = 0;
  for (const Interval& i : outcome.timeline) {
    mine.push_back(i.begin);
    mine.push_back(i.end);
    if (i.stream == "communication") ++calls;
    bytes += static_cast<double>(i.bytes);
    sent_bytes += i.sent;
  }
  const auto all = gather_doubles(world_, mine);  // every rank has the same intervals
  if (world_.rank() != 0) return;

  Column rank{"rank", "", std::vector<std::int64_t>{}};
  Column stream{"stream", "", std::vector<std::string>{}};
  Column scope{"scope", "", std::vector<std::string>{}};
  Column begin{"begin", "s", std::vector<double>{}};
  Column end{"end", "s", std::vector<double>{}};
  Column sent{"sent", "bytes", std::vector<std::int64_t>{}};
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < outcome.timeline.size(); ++i) {
      const Interval& interval = outcome.timeline[i];
      std::get<0>(rank.data).push_back(static_cast<std::int64_t>(r));
      std::get<2>(stream.data).push_back(interval.stream);
      std::get<2>(scope.data).push_back(interval.name);
      std::get<1>(begin.data).push_back(all[r][2 * i]);
      std::get<1>(end.data).push_back(all[r][2 * i + 1]);
      std::get<0>(sent.data).push_back(static_cast<std::int64_t>(interval.bytes));
    }
  }
  record.tables.push_back({"timeline", {rank, stream, scope, begin, end, sent}});

  const auto median = [&](std::string_view phase) {
    for (const PhaseSamples& p : record.samples) {
      if (p.phase == phase) return summarize(max_over_ranks(p.measured)).median;
    }
    return std::numeric_limits<double>::quiet_NaN();
  };
  const double step = median("step");
  record.summary.push_back(number("communication_calls", "", calls));
  record.summary.push_back(number("communication_bytes", "bytes", bytes));
  record.summary.push_back(number("communication_sent_bytes", "bytes", sent_bytes));
  record.summary.push_back(number("communication_share", "", median("communication_total") / step));
  record.summary.push_back(number("exposed_share", "", median("communication_exposed") / step));
}

}  // namespace paceline
