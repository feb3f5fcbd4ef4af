#include "harness/profile_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>

#include "core/kernel_name.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// A table of texts that rows of all ranks refer to by index.
class SharedTexts {
 public:
  [[nodiscard]] std::int64_t place(const std::string& text) {
    const auto [known, is_new] = places_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return static_cast<std::int64_t>(known->second);
  }
  template <class Shown = std::identity>
  [[nodiscard]] Column column(const std::string& name, Shown shown = {}) const {
    std::vector<std::string> values;
    std::ranges::transform(texts_, std::back_inserter(values), shown);
    return {.name = name, .unit = "", .data = std::move(values)};
  }

 private:
  std::vector<std::string> texts_;
  std::map<std::string, std::size_t> places_;
};

// A table of the rows that all ranks have in one of their lists.
template <class T>
class RankRows {
 public:
  RankRows(const std::string& path, const ProfiledCase& profiled, std::vector<T> StepTrace::*list)
      : table_{path, {}}, profiled_(profiled), list_(list) {
    add("rank", [](std::size_t rank, const T&) { return static_cast<std::int64_t>(rank); });
  }

  // The column of value_of(rank, row).
  template <class ValueOf>
  void add(const std::string& name, const ValueOf& value_of) {
    std::vector<std::invoke_result_t<ValueOf, std::size_t, const T&>> values;
    for (std::size_t rank = 0; rank < profiled_.ranks.size(); ++rank) {
      for (const T& row : profiled_.ranks[rank].*list_) values.push_back(value_of(rank, row));
    }
    table_.columns.push_back({.name = name, .unit = "", .data = std::move(values)});
  }
  template <class Member, class Base>
  void add(const std::string& name, Member Base::*field) {
    using Value = std::conditional_t<std::is_same_v<Member, double>, double, std::int64_t>;
    add(name, [&](std::size_t, const T& row) { return static_cast<Value>(row.*field); });
  }
  // Times count from the start of rank 0's first step, on its clock.
  void add_times() {
    const double first = profiled_.ranks.front().steps.front().begin;
    for (const auto& [name, field] : {std::pair{"begin", &T::begin}, std::pair{"end", &T::end}}) {
      add(name, [&, field = field](std::size_t rank, const T& row) {
        return row.*field - (first + profiled_.clocks[rank].seconds);
      });
    }
  }
  [[nodiscard]] Table take() { return std::move(table_); }

 private:
  Table table_;
  const ProfiledCase& profiled_;
  std::vector<T> StepTrace::*list_;
};

Table activity_table(const ProfiledCase& profiled, SharedTexts& names) {
  RankRows rows("trace", profiled, &StepTrace::activities);
  rows.add("step", &StepActivity::step);
  rows.add("kind", &StepActivity::kind);
  rows.add("stream", &StepActivity::stream);
  rows.add("name", [&](std::size_t rank, const StepActivity& row) {
    return names.place(profiled.ranks[rank].names[static_cast<std::size_t>(row.name)]);
  });
  rows.add("span", &StepActivity::span);
  rows.add_times();
  rows.add("correlation", &StepActivity::correlation);
  rows.add("bytes", &StepActivity::bytes);
  rows.add("blocks", &StepActivity::blocks);
  return rows.take();
}

Table span_table(const ProfiledCase& profiled, SharedTexts& paths) {
  RankRows rows("trace/spans", profiled, &StepTrace::spans);
  rows.add("step", &StepSpan::step);
  rows.add("scope", [&](std::size_t rank, const StepSpan& row) {
    return paths.place(profiled.ranks[rank].paths[row.scope]);
  });
  rows.add("operation", &StepSpan::operation);
  rows.add_times();
  rows.add("flops", [](std::size_t, const StepSpan& row) { return row.work.flops; });
  rows.add("bytes", [](std::size_t, const StepSpan& row) { return row.work.bytes; });
  rows.add("elements", [](std::size_t, const StepSpan& row) { return row.work.elements; });
  rows.add("dtype", [](std::size_t, const StepSpan& row) {
    return row.work.elements > 0 ? std::string(name_of(row.work.dtype)) : "";
  });
  return rows.take();
}

Table step_table(const ProfiledCase& profiled) {
  RankRows rows("trace/steps", profiled, &StepTrace::steps);
  rows.add("step", [&](std::size_t rank, const HostInterval& row) {
    return std::int64_t{&row - profiled.ranks[rank].steps.data()};
  });
  rows.add_times();
  return rows.take();
}

Table phase_table(const ProfiledCase& profiled) {
  TableRows rows("trace/phases");
  for (std::size_t rank = 0; rank < profiled.steps.size(); ++rank) {
    for (std::size_t step = 0; step < profiled.steps[rank].size(); ++step) {
      for (std::size_t p = 0; p < profiled.phases.size(); ++p) {
        const std::string& phase = profiled.phases[p];
        const bool by_events = p < profiled.events.size();
        rows.add({{"rank", static_cast<std::int64_t>(rank)},
                  {"step", static_cast<std::int64_t>(step)},
                  {"phase", phase},
                  {"events", by_events ? profiled.events[p][rank][step] : std::nan("")},
                  {"host", std::int64_t{std::ranges::count(profiled.host_phases, phase)}}});
      }
    }
  }
  return rows.take();
}

Table rank_table(const ProfiledCase& profiled) {
  TableRows rows("trace/ranks");
  for (std::size_t r = 0; r < profiled.ranks.size(); ++r) {
    const StepTrace& trace = profiled.ranks[r];
    rows.add({{"rank", static_cast<std::int64_t>(r)},
              {"clock_offset", profiled.clocks[r].seconds},
              {"clock_error", profiled.clocks[r].error},
              {"lost", trace.lost},
              {"source", trace.source},
              {"reason", trace.reason}});
  }
  return rows.take();
}

void add_trace(CaseRecord& record, const ProfiledCase& profiled) {
  SharedTexts kinds;
  for (const std::string_view kind : names_of(ActivityKind{})) (void)kinds.place(std::string(kind));
  SharedTexts names;
  SharedTexts paths;
  std::vector<Table>& tables = record.tables;
  tables.push_back(activity_table(profiled, names));
  tables.push_back(span_table(profiled, paths));
  tables.push_back({"trace/kinds", {kinds.column("kind")}});
  tables.push_back({"trace/scopes", {paths.column("path")}});
  tables.push_back(
      {"trace/names", {names.column("name"), names.column("short_name", short_kernel_name)}});
  tables.push_back(step_table(profiled));
  tables.push_back(phase_table(profiled));
  tables.push_back(rank_table(profiled));
}

}  // namespace

void add_profile_to(CaseRecord& record, const ProfiledCase& profiled) {
  std::int64_t lost = 0;
  for (std::size_t rank = 0; rank < profiled.ranks.size(); ++rank) {
    const StepTrace& trace = profiled.ranks[rank];
    lost += trace.lost;
    if (!trace.reason.empty()) {
      record.warnings.push_back(
          {warning::timed_by_events,
           fmt::format("rank {} is timed by events: {}", rank, trace.reason)});
    }
    if (trace.lost == 0) continue;
    record.warnings.push_back(
        {warning::lost_records, fmt::format("{} records of rank {} are lost", trace.lost, rank)});
  }
  add_trace(record, profiled);
  record.add("profile_source", profiled.ranks.front().source);
  record.add("profile_lost", lost);
  record.add("profiled_headline_s", summarize(max_over_ranks(profiled.steps)).median);
  record.add("headline_after_profile_s", summarize(max_over_ranks(profiled.steps_after)).median);
}

}  // namespace paceline
