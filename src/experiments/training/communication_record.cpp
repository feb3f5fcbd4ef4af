#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "experiments/training/training_records.h"
#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// One interval on a stream; seconds since the start of the step.
struct StreamInterval {
  std::string stream;
  std::string scope;
  double begin;
  double end;
  double message_bytes = std::numeric_limits<double>::quiet_NaN();  // NaN unless a collective
  double sent_bytes = std::numeric_limits<double>::quiet_NaN();
};

std::vector<StreamInterval> intervals_of(const StepRunner& runner) {
  std::vector<StreamInterval> intervals;
  const std::vector<EventPtr>& events = runner.last().phases;
  const Event& origin = *events.front();
  const std::vector<std::string> phases = runner.phases();
  for (std::size_t i = 1; i < events.size(); ++i) {
    intervals.push_back({"compute", phases[i - 1], events[i - 1]->seconds_since(origin),
                         events[i]->seconds_since(origin)});
  }
  for (const Exchange& e : runner.last().exchanges) {
    intervals.push_back({std::string(e.stream), std::string(e.op) + " " + e.what,
                         e.begin->seconds_since(origin), e.end->seconds_since(origin),
                         static_cast<double>(e.message_bytes), e.sent_bytes});
  }
  for (const Wait& w : runner.last().waits) {
    intervals.push_back(
        {"compute waits", w.what, w.from->seconds_since(origin), w.until->seconds_since(origin)});
  }
  for (const OptimizerInBackward::Update& u : runner.last().updates) {
    if (u.fused()) continue;
    intervals.push_back({"optimizer", fmt::format("{} parameters", u.range.length),
                         u.begin->seconds_since(origin), u.end->seconds_since(origin)});
  }
  return intervals;
}

double fused_share(const std::vector<OptimizerInBackward::Update>& updates) {
  double fused = 0;
  double all = 0;
  for (const OptimizerInBackward::Update& u : updates) {
    const auto length = static_cast<double>(u.range.length);
    all += length;
    if (u.fused()) fused += length;
  }
  return fused / all;
}

double median_of(const CaseRecord& record, std::string_view phase) {
  for (const PhaseSamples& p : record.samples) {
    if (p.phase == phase) return summarize(max_over_ranks(p.measured)).median;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void add_communication(CaseRecord& record, World& world, const TrainingCase& c,
                       const StepRunner& runner, TrainingStep& step) {
  if (!step.strategy().communicates() && !step.updates_in_backward()) return;
  const std::vector<StreamInterval> intervals = intervals_of(runner);
  std::vector<double> mine;
  double message_bytes = 0;
  double sent_bytes = 0;
  for (const StreamInterval& i : intervals) {
    mine.push_back(i.begin);
    mine.push_back(i.end);
  }
  for (const Exchange& e : runner.last().exchanges) {
    message_bytes += static_cast<double>(e.message_bytes);
    sent_bytes += e.sent_bytes;
  }
  const auto all = gather_values(world, mine);  // every rank has the same intervals
  const WaitSeconds waited = runner.waited();
  const double waited_in_forward = world.max(waited.forward);
  const double waited_in_backward = world.max(waited.backward);
  if (world.rank() != 0) return;
  TableRows timeline("timeline");
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      timeline.add({{"rank", static_cast<std::int64_t>(r)},
                    {"stream", intervals[i].stream},
                    {"scope", intervals[i].scope},
                    {"begin", all[r][2 * i]},
                    {"end", all[r][2 * i + 1]},
                    {"message_bytes", intervals[i].message_bytes},
                    {"sent_bytes", intervals[i].sent_bytes}});
    }
  }
  record.tables.push_back(timeline.take());
  if (step.updates_in_backward()) {
    record.add("optimizer_fused_share", fused_share(runner.last().updates));
    record.add("optimizer_hidden_share",
               1 - median_of(record, "optimizer") / median_of(record, "optimizer_total"));
  }
  if (!step.strategy().communicates()) return;
  const double seconds = median_of(record, "step");
  record.add("communication_calls", static_cast<double>(runner.last().exchanges.size()));
  record.add("message_bytes", message_bytes);
  record.add("sent_bytes", sent_bytes);
  if (const auto predicted = c.strategy_shape().sent_bytes(c.recompute.blocks)) {
    record.add("predicted_sent_bytes", *predicted);
  }
  record.add("communication_share", median_of(record, "communication_total") / seconds);
  record.add("exposed_share", median_of(record, "communication_exposed") / seconds);
  if (runner.last().waits.empty()) return;
  record.add("waited_in_forward_s", waited_in_forward);
  record.add("waited_in_backward_s", waited_in_backward);
}

}  // namespace paceline
