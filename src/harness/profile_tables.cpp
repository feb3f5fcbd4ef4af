#include "harness/profile_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "measure/profile.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// A table of texts that rows of all ranks refer to by index.
class SharedTexts {
 public:
  [[nodiscard]] std::int64_t place(const std::string& text) {
    const auto [known, is_new] = places_.emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return static_cast<std::int64_t>(known->second);
  }
  [[nodiscard]] const std::vector<std::string>& all() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::map<std::string, std::size_t> places_;
};

template <class Rows, class ValueOf>
Column column(const std::string& name, const Rows& rows, const ValueOf& value_of) {
  std::vector<decltype(value_of(rows.front()))> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(value_of(row));
  return {.name = name, .unit = "", .data = std::move(values)};
}

template <class T>
struct RankRow {
  std::int64_t rank;
  const StepTrace& trace;
  const T& of;
  double offset;  // subtracted from its times: they count from the start of rank 0's first step
};

// The rows of all ranks.
template <class T>
std::vector<RankRow<T>> rows_of(const ProfiledCase& profiled, std::vector<T> StepTrace::*list) {
  std::vector<RankRow<T>> rows;
  const double begin = profiled.ranks.front().steps.front().begin;
  for (std::size_t r = 0; r < profiled.ranks.size(); ++r) {
    const StepTrace& trace = profiled.ranks[r];
    for (const T& row : trace.*list) {
      rows.push_back(
          {static_cast<std::int64_t>(r), trace, row, begin + profiled.clocks[r].seconds});
    }
  }
  return rows;
}

template <class Rows>
Column rank_column(const Rows& rows) {
  return column("rank", rows, [](const auto& row) { return row.rank; });
}

Table activity_table(const ProfiledCase& profiled, SharedTexts& names) {
  const auto rows = rows_of(profiled, &StepTrace::activities);
  const auto whole = [&](const std::string& name, auto field) {
    return column(name, rows, [&](const auto& row) { return std::int64_t{row.of.*field}; });
  };
  const auto time = [&](const std::string& name, double StepActivity::*field) {
    return column(name, rows, [&](const auto& row) { return row.of.*field - row.offset; });
  };
  return {
      "trace",
      {rank_column(rows), whole("step", &StepActivity::step),
       column("kind", rows, [](const auto& row) { return static_cast<std::int64_t>(row.of.kind); }),
       whole("stream", &StepActivity::stream),
       column("name", rows,
              [&](const auto& row) {
                return names.place(row.trace.names[static_cast<std::size_t>(row.of.name)]);
              }),
       whole("span", &StepActivity::span), time("begin", &StepActivity::begin),
       time("end", &StepActivity::end), whole("correlation", &StepActivity::correlation),
       column("bytes", rows, [](const auto& row) { return row.of.bytes; }),
       whole("blocks", &StepActivity::blocks)}};
}

Table span_table(const ProfiledCase& profiled, SharedTexts& paths) {
  const auto rows = rows_of(profiled, &StepTrace::spans);
  const auto time = [&](const std::string& name, double StepSpan::*field) {
    return column(name, rows, [&](const auto& row) { return row.of.*field - row.offset; });
  };
  return {"trace/spans",
          {rank_column(rows),
           column("step", rows, [](const auto& row) { return std::int64_t{row.of.step}; }),
           column("scope", rows,
                  [&](const auto& row) { return paths.place(row.trace.paths[row.of.scope]); }),
           column("operation", rows,
                  [](const auto& row) { return std::int64_t{row.of.operation ? 1 : 0}; }),
           time("begin", &StepSpan::begin), time("end", &StepSpan::end),
           column("flops", rows, [](const auto& row) { return row.of.work.flops; }),
           column("bytes", rows, [](const auto& row) { return row.of.work.bytes; }),
           column("elements", rows, [](const auto& row) { return row.of.work.elements; }),
           column("dtype", rows, [](const auto& row) {
             return row.of.work.elements > 0 ? std::string(name_of(row.of.work.dtype)) : "";
           })}};
}

Table step_table(const ProfiledCase& profiled) {
  TableRows rows("trace/steps");
  for (const auto& [rank, trace, step, offset] : rows_of(profiled, &StepTrace::steps)) {
    rows.add({{"rank", rank},
              {"step", std::int64_t{&step - trace.steps.data()}},
              {"begin", step.begin - offset},
              {"end", step.end - offset}});
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
  SharedTexts names;
  SharedTexts paths;
  record.tables.push_back(activity_table(profiled, names));
  record.tables.push_back(span_table(profiled, paths));
  const auto as_text = [](std::string_view text) { return std::string(text); };
  record.tables.push_back({"trace/kinds", {column("kind", names_of(ActivityKind{}), as_text)}});
  record.tables.push_back({"trace/scopes", {column("path", paths.all(), as_text)}});
  record.tables.push_back({"trace/names",
                           {column("name", names.all(), as_text),
                            column("short_name", names.all(), short_kernel_name)}});
  record.tables.push_back(step_table(profiled));
  record.tables.push_back(rank_table(profiled));
}

double rate(double work, double seconds) { return work > 0 && seconds > 0 ? work / seconds : NAN; }

Row cells_of(const KernelUse& use, double all_seconds) {
  return {{"phase", use.phase},
          {"operation", use.operation},
          {"kernel", use.kernel},
          {"calls", use.calls},
          {"total", use.seconds},
          {"mean", use.seconds / use.calls},
          {"share", use.seconds / all_seconds},
          {"flops_per_s", rate(use.flops, use.seconds)},
          {"bytes_per_s", rate(use.bytes, use.seconds)}};
}

Row cells_of(const ScopeUse& use, double all_seconds) {
  return {{"scope", use.path},
          {"operation", std::int64_t{use.is_operation ? 1 : 0}},
          {"calls", use.calls},
          {"total", use.seconds},
          {"mean", use.seconds / use.calls},
          {"share", use.seconds / all_seconds},
          {"flops", use.flops},
          {"bytes", use.bytes},
          {"flops_per_s", rate(use.flops, use.seconds)},
          {"bytes_per_s", rate(use.bytes, use.seconds)}};
}

double event_seconds_of(const ProfiledCase& profiled, const std::string& phase, std::size_t rank) {
  const auto place =
      static_cast<std::size_t>(std::ranges::find(profiled.phases, phase) - profiled.phases.begin());
  return place < profiled.events.size() ? summarize(profiled.events[place][rank]).mean : NAN;
}

bool has(const std::vector<std::string>& phases, const std::string& phase) {
  return std::ranges::find(phases, phase) != phases.end();
}

// From before profiling; NaN for phases that the host's clock does not time.
double host_seconds_of(const CaseRecord& record, const ProfiledCase& profiled,
                       const std::string& phase, std::size_t rank) {
  const auto samples = std::ranges::find(record.samples, phase, &PhaseSamples::phase);
  const bool known = has(profiled.host_phases, phase) && samples != record.samples.end();
  return known ? summarize(samples->measured[rank]).mean : NAN;
}

void add_uses(CaseRecord& record, const ProfiledCase& profiled) {
  TableRows kernels("kernels");
  TableRows scopes("kernels/scopes");
  TableRows phases("kernels/phases");
  for (std::size_t r = 0; r < profiled.profiles.size(); ++r) {
    const StepProfile& profile = profiled.profiles[r];
    const double all_seconds = profile.phases.back().kernels;
    const auto add = [&](TableRows& table, const Row& cells) {
      Row row = {{"rank", static_cast<std::int64_t>(r)}};
      row.insert(row.end(), cells.begin(), cells.end());
      table.add(row);
    };
    for (const KernelUse& use : profile.kernels) add(kernels, cells_of(use, all_seconds));
    for (const ScopeUse& use : profile.scopes) add(scopes, cells_of(use, all_seconds));
    for (const PhaseUse& use : profile.phases) {
      if (!has(profiled.phases, use.phase) && use.phase != "step") continue;
      add(phases, {{"phase", use.phase},
                   {"host", host_seconds_of(record, profiled, use.phase, r)},
                   {"events", event_seconds_of(profiled, use.phase, r)},
                   {"extent", use.extent},
                   {"busy", use.busy},
                   {"gaps", use.extent - use.busy},
                   {"kernels", use.kernels},
                   {"products", use.products}});
    }
  }
  for (TableRows* table : {&kernels, &scopes, &phases}) {
    if (!table->empty()) record.tables.push_back(table->take());
  }
}

// `uses` in descending order of time: the costliest kernel, and the costliest that are not matrix
// products.
void add_costliest(CaseRecord& record, const std::string& prefix,
                   const std::vector<KernelUse>& uses) {
  double all = 0;
  for (const KernelUse& use : uses) all += use.seconds;
  if (uses.empty()) return;
  record.add(prefix + "_costliest_kernel", uses.front().kernel);
  record.add(prefix + "_costliest_calls", uses.front().calls);
  record.add(prefix + "_costliest_share", uses.front().seconds / all);
  std::vector<std::string> others;
  constexpr std::size_t most = 3;
  for (const KernelUse& use : uses) {
    if (use.is_product() || others.size() == most) continue;
    others.push_back(fmt::format("{} {:.1f}%", use.kernel, 100 * use.seconds / all));
  }
  record.add(prefix + "_other_kernels", fmt::format("{}", fmt::join(others, ", ")));
}

// The time and FLOPs of softmax in the forward pass's attention, and of the two products around it.
void add_softmax(CaseRecord& record, const StepProfile& profile) {
  ScopeUse softmax;
  ScopeUse products;
  for (const ScopeUse& use : profile.scopes) {
    if (!use.path.starts_with("forward/")) continue;
    const bool in_attention = use.path.find("scaled dot product attention/") != std::string::npos;
    const bool is_softmax = use.path.ends_with("/computing softmax");
    if (!in_attention || (!is_softmax && !use.path.ends_with("/matmul"))) continue;
    ScopeUse& sum = is_softmax ? softmax : products;
    sum.seconds += use.seconds;
    sum.flops += use.flops;
  }
  if (softmax.seconds == 0) return;
  record.add("softmax_s", softmax.seconds);
  record.add("attention_products_s", products.seconds);
  record.add("softmax_flops", softmax.flops);
  record.add("attention_products_flops", products.flops);
}

const PhaseUse* phase_of(const StepProfile& profile, std::string_view phase) {
  const auto found = std::ranges::find(profile.phases, phase, &PhaseUse::phase);
  return found == profile.phases.end() ? nullptr : &*found;
}

// The share of matrix products in the time of all kernels of the step but collectives.
double products_share(const StepProfile& profile) {
  double products = 0;
  double all = 0;
  for (const KernelUse& use : profile.kernels) {
    if (use.communicates) continue;
    all += use.seconds;
    if (use.is_product()) products += use.seconds;
  }
  return products / all;
}

// Answers to the usual questions about a profile, from rank 0.
void add_answers(CaseRecord& record, const ProfiledCase& profiled, const StepProfile& profile) {
  const PhaseUse* forward = phase_of(profile, "forward");
  if (forward == nullptr) return;
  record.add("forward_host_s", host_seconds_of(record, profiled, "forward", 0));
  record.add("forward_events_s", event_seconds_of(profiled, "forward", 0));
  record.add("forward_kernels_s", forward->busy);
  add_costliest(record, "forward", by_kernel(profile, {"forward"}));
  record.add("forward_products_share", forward->products / forward->kernels);
  if (phase_of(profile, "backward") != nullptr) {
    add_costliest(record, "forward_backward", by_kernel(profile, {"forward", "backward"}));
  }
  record.add("step_products_share", products_share(profile));
  add_softmax(record, profile);
}

bool is_flash(std::string_view name) {
  return name.find("flash_attention") != std::string_view::npos;
}

// The share of flash attention in the FLOPs of a row of "kernels" or "kernels/scopes".
double flash_share(const Row& row, const std::vector<Row>& rows) {
  if (find_column(row, "scope") == nullptr) {
    return is_flash(value_in<std::string>(row, "operation")) ? 1 : 0;
  }
  const std::string within = value_in<std::string>(row, "scope") + "/";
  double flops = 0;
  for (const Row& other : rows) {
    const std::string& scope = value_in<std::string>(other, "scope");
    if (is_flash(scope) && value_in<std::int64_t>(other, "operation") == 1 &&
        value_in<std::int64_t>(other, "rank") == value_in<std::int64_t>(row, "rank") &&
        (scope + "/").starts_with(within)) {
      flops += value_in<double>(other, "flops");
    }
  }
  return flops / value_in<double>(row, "flops");
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
  add_uses(record, profiled);
  add_trace(record, profiled);
  record.add("profile_source", profiled.ranks.front().source);
  record.add("profile_lost", lost);
  record.add("profiled_headline_s", summarize(max_over_ranks(profiled.steps)).median);
  record.add("headline_after_profile_s", summarize(max_over_ranks(profiled.steps_after)).median);
  const double overlap = communication_overlap(profiled.ranks);
  if (!std::isnan(overlap)) record.add("communication_overlap", overlap);
  add_answers(record, profiled, profiled.profiles.front());
}

void add_shares_of_ceilings(CaseRecord& record, const ProductCeilings& gemm, const Ceiling& copy) {
  const double most_bytes = copy.is_reliable() ? copy.rate.median : NAN;
  for (Table& table : record.tables) {
    if (table.path != "kernels" && table.path != "kernels/scopes") continue;
    std::vector<Row> rows;
    for (std::size_t i = 0; i < length_of(table.columns.front()); ++i) {
      rows.push_back(row_of(table.columns, i));
    }
    table.columns.push_back(column("flops_share", rows, [&](const Row& row) {
      const double flash = flash_share(row, rows);
      const double most = gemm.is_reliable() ? gemm.rates().of(1, flash) : NAN;
      return value_in<double>(row, "flops_per_s") / most;
    }));
    table.columns.push_back(column("bytes_share", rows, [&](const Row& row) {
      return value_in<double>(row, "bytes_per_s") / most_bytes;
    }));
  }
}

}  // namespace paceline
