#include "record/table_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/similar_name.h"

namespace paceline {

namespace {

bool has_number(const std::vector<Row>& rows, std::string_view name) {
  const std::vector<double> numbers = numbers_in(rows, name);
  return std::any_of(numbers.begin(), numbers.end(), [](double n) { return std::isfinite(n); });
}

bool has_cell(const std::vector<Row>& rows, std::string_view name) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& row) { return find_column(row, name) != nullptr; });
}

bool has_text(const std::vector<Row>& rows, std::string_view name) {
  return std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    const Cell* cell = find_column(row, name);
    const auto* text = cell == nullptr ? nullptr : std::get_if<std::string>(&cell->value);
    return text != nullptr && !text->empty();
  });
}

// The phases, the headline last, of the row that has the most: a step without backward has only
// some.
std::vector<std::string> phases_of(const std::vector<Row>& rows) {
  constexpr std::string_view ending = "_median_s";
  std::vector<std::string> most;
  for (const Row& row : rows) {
    std::vector<std::string> phases;
    for (const auto& [name, value, unit] : row) {
      if (name.ends_with(ending)) phases.push_back(name.substr(0, name.size() - ending.size()));
    }
    if (phases.size() > most.size()) most = std::move(phases);
  }
  return most;
}

// The names of a phase's columns.
class PhaseColumns {
 public:
  PhaseColumns(const std::vector<Row>& rows, Statistic statistic)
      : rows_(rows), statistic_(statistic), phases_(phases_of(rows)) {
    const std::vector<double> ranks = numbers_in(rows, "ranks");
    several_ranks_ = std::any_of(ranks.begin(), ranks.end(), [](double n) { return n > 1; });
  }

  [[nodiscard]] bool has_parts() const { return has_number(rows_, part("rest")); }
  [[nodiscard]] bool several_ranks() const { return several_ranks_; }

  [[nodiscard]] TableGroup headline_and_parts() const {
    TableGroup group;
    for (const std::string& phase : phases_) {
      const bool is_headline = phase == phases_.back();
      if (!has_parts()) {
        add(group, phase, phase, is_headline);
      } else if (is_headline) {
        group.push_back({"rest", {part("rest")}, headline_value()});
        add(group, phase, phase, true);
      } else if (has_number(rows_, part(phase))) {
        group.push_back({phase, {part(phase)}, headline_value()});
        if (!several_ranks_) add_std(group, phase);
      }
    }
    return group;
  }

  // Further columns: with several ranks the maximum over ranks of every phase, else the phases that
  // are not parts.
  [[nodiscard]] TableGroup others() const {
    TableGroup group;
    if (!has_parts()) return group;
    for (const std::string& phase : phases_) {
      if (phase == phases_.back()) continue;
      if (several_ranks_) {
        add(group, "max " + phase, phase, false);
      } else if (!has_number(rows_, part(phase))) {
        add(group, phase, phase, false);
      }
    }
    return group;
  }

  [[nodiscard]] std::vector<std::string> part_names() const {
    std::vector<std::string> names;
    for (const std::string& phase : phases_) {
      if (has_number(rows_, part(phase))) names.push_back(phase);
    }
    return names;
  }
  [[nodiscard]] std::string headline() const { return phases_.empty() ? "" : phases_.back(); }

 private:
  [[nodiscard]] std::string part(const std::string& phase) const {
    return fmt::format("{}_{}_part_s", phase, name_of(statistic_));
  }

  // All times have the headline's unit.
  [[nodiscard]] std::string headline_value() const { return value(phases_.back()); }
  [[nodiscard]] std::string value(const std::string& phase) const {
    return fmt::format("{}_{}_s", phase, name_of(statistic_));
  }

  void add(TableGroup& group, const std::string& head, const std::string& phase,
           bool interval) const {
    group.push_back({head, {value(phase)}, headline_value()});
    add_std(group, phase);
    if (interval && statistic_ == Statistic::median) {
      group.push_back(
          {"95% interval", {phase + "_ci_low_s", phase + "_ci_high_s"}, headline_value()});
    }
  }
  void add_std(TableGroup& group, const std::string& phase) const {
    if (statistic_ == Statistic::mean)
      group.push_back({"std", {phase + "_std_s"}, headline_value()});
  }

  const std::vector<Row>& rows_;
  Statistic statistic_;
  std::vector<std::string> phases_;
  bool several_ranks_ = false;
};

}  // namespace

std::vector<double> numbers_in(const std::vector<Row>& rows, std::string_view name) {
  std::vector<double> numbers;
  for (const Row& row : rows) {
    const Cell* cell = find_column(row, name);
    numbers.push_back(cell ? number_of(cell->value) : std::numeric_limits<double>::quiet_NaN());
  }
  return numbers;
}

std::vector<TableGroup> table_groups(const std::vector<Row>& rows,
                                     const std::vector<ShownColumn>& shown,
                                     const TableOptions& options) {
  TableGroup last;
  for (const std::string& name : options.columns) last.push_back({name, {name}});
  if (!last.empty()) return {last};
  for (const ShownColumn& column : shown) {
    const bool shown_as_it_is = !column.format.empty() && has_cell(rows, column.name);
    if (!shown_as_it_is && !has_number(rows, column.name) && !has_text(rows, column.name)) continue;
    last.push_back({column.head, {column.name}, {}, column.format});
  }
  const PhaseColumns phases(rows, options.statistic);
  return {phases.headline_and_parts(), phases.others(), last};
}

std::string times_note(const std::vector<Row>& rows, const TableOptions& options) {
  const PhaseColumns phases(rows, options.statistic);
  const bool mean = options.statistic == Statistic::mean;
  const bool several = phases.several_ranks();
  const std::string_view statistic = name_of(options.statistic);
  const std::string headline = phases.headline();
  if (!options.columns.empty() || headline.empty()) return "";
  const std::string what =
      fmt::format("{} over repetitions{}", statistic, several ? " of the maximum over ranks" : "");
  const std::string_view deviation =
      mean ? " std: the standard deviation. Rates and shares are computed from the medians." : "";
  if (!phases.has_parts()) return fmt::format("times: {}.{}", what, deviation);
  return fmt::format(
      "{0}: {1}. {2}, rest: {3}{4}; they add up to {0}, and rest is what no phase covers.{5}{6}",
      headline, what, fmt::join(phases.part_names(), ", "),
      several ? "on the rank of that maximum, " : "",
      mean ? "means over repetitions"
           : "in the repetition of the median (of an even number, averaged over the middle two)",
      several ? fmt::format(" max: {} of each phase by itself.", what) : "", deviation);
}

std::string unknown_columns(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  std::vector<std::string_view> known;
  for (const Row& row : rows) {
    for (const Cell& cell : row) {
      if (std::find(known.begin(), known.end(), cell.name) == known.end()) {
        known.push_back(cell.name);
      }
    }
  }
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    unknown.push_back(name + did_you_mean(name, known));
  }
  if (unknown.empty()) return "";
  return fmt::format("the summary has no {}", fmt::join(unknown, ", "));
}

}  // namespace paceline
