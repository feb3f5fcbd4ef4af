#include "record/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "core/error.h"
#include "record/case_file.h"
#include "record/result_file.h"
#include "record/text_table.h"

namespace paceline {

namespace {

// Factors that say how often was measured, or what else was recorded.
constexpr std::array<std::string_view, 7> effort = {
    "seed", "warmup", "steps", "until_ci", "max_steps", "timeout", "memory_timeline"};
// Factors that follow from the machine where the user gives no value.
constexpr std::array<std::string_view, 3> of_machine = {"device", "threads", "ranks"};

constexpr double same_within = 0.02;  // of the medians

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Result {
  FactorTexts factors;  // sorted by name
  std::string status;
  std::string reason;
  double median = std::numeric_limits<double>::quiet_NaN();  // seconds, of the headline phase
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();

  [[nodiscard]] bool ok() const { return status == "ok"; }
};

struct Measured {
  std::string experiment;
  std::vector<std::string> devices;  // of every rank, sorted
  std::vector<std::string> cpus;
  std::vector<Result> results;
};

template <class T>
const std::vector<T>& data_of(const std::vector<Column>& columns, const std::string& name) {
  const Column* column = find_column(columns, name);
  const auto* data = column == nullptr ? nullptr : std::get_if<std::vector<T>>(&column->data);
  if (data == nullptr) throw Hdf5Error(fmt::format("column '{}' is missing", name));
  return *data;
}

std::vector<std::string> sorted(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

Result read_result(const hdf5::File& file, const std::string& id,
                   const std::vector<Column>& summary, std::size_t row, bool any_machine) {
  Result result;
  const hdf5::Group group = file.group("cases/" + id);
  const Case factors = read_factors(file, id);
  for (const auto& [name, value] : factors.factors()) {
    const bool ignored = contains(effort, name) || (any_machine && contains(of_machine, name));
    if (!ignored) result.factors.emplace_back(name, to_text(value));
  }
  result.status = group.text_attribute("status");
  result.reason = group.text_attribute("reason");
  if (result.ok() && group.has("samples")) {
    const std::string headline = group.group("samples").text_attribute("headline");
    result.median = data_of<double>(summary, headline + "_median_s").at(row);
    result.low = data_of<double>(summary, headline + "_ci_low_s").at(row);
    result.high = data_of<double>(summary, headline + "_ci_high_s").at(row);
  }
  return result;
}

Measured read(const std::filesystem::path& path, bool any_machine) {
  const std::vector<Column> summary = read_summary(path);
  const hdf5::File file = open_result_file(path);
  return reading(path, [&] {
    Measured measured;
    measured.experiment = file.text_attribute("experiment");
    const std::vector<Column> ranks = read_columns(file.group("ranks"));
    measured.devices = sorted(data_of<std::string>(ranks, "device"));
    measured.cpus = sorted(data_of<std::string>(ranks, "cpu"));
    const std::vector<std::string> ids = data_of<std::string>(summary, "case");
    for (std::size_t row = 0; row < ids.size(); ++row) {
      measured.results.push_back(read_result(file, ids[row], summary, row, any_machine));
    }
    return measured;
  });
}

std::string listed(std::vector<std::string> texts) {
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return fmt::format("{}", fmt::join(texts, ", "));
}

void require_alike(const Measured& a, const Measured& b, bool any_machine) {
  if (a.experiment != b.experiment) {
    throw UsageError(fmt::format("A holds results of '{}', B of '{}': nothing to compare",
                                 a.experiment, b.experiment));
  }
  if (any_machine) return;
  const auto refuse = [](const char* what, const std::string& of_a, const std::string& of_b) {
    throw UsageError(fmt::format(
        "{} differ: {} in A, {} in B; --any-machine compares them all the same", what, of_a, of_b));
  };
  if (a.devices.size() != b.devices.size()) {
    refuse("rank counts", std::to_string(a.devices.size()), std::to_string(b.devices.size()));
  }
  if (a.devices != b.devices) refuse("devices", listed(a.devices), listed(b.devices));
  if (a.cpus != b.cpus) refuse("the hosts' CPUs", listed(a.cpus), listed(b.cpus));
}

std::string verdict_of(const Result& a, const Result& b) {
  if (a.ok() && !b.ok()) return "no longer ok";
  if (!a.ok()) return b.ok() ? "ok now" : "not ok";
  if (std::isnan(a.low) || std::isnan(b.low)) return "undecided";
  if (b.high < a.low) return "faster";
  if (b.low > a.high) return "slower";
  return std::abs(b.median - a.median) <= same_within * a.median ? "same" : "undecided";
}

struct Pair {
  Result a;
  Result b;
  std::string verdict;
};

struct Matches {
  std::vector<Pair> pairs;  // in B's order
  std::vector<Result> only_a;
  std::vector<Result> only_b;
};

// Cases of equal factors (repeated under another seed, say) are matched in order.
Matches match(const Measured& a, const Measured& b) {
  Matches matches{.pairs = {}, .only_a = a.results, .only_b = {}};
  std::vector<Result>& free = matches.only_a;
  for (const Result& result : b.results) {
    const auto it = std::find_if(free.begin(), free.end(),
                                 [&](const Result& r) { return r.factors == result.factors; });
    if (it == free.end()) {
      matches.only_b.push_back(result);
      continue;
    }
    matches.pairs.push_back({*it, result, verdict_of(*it, result)});
    free.erase(it);
  }
  return matches;
}

std::string status_text(const char* file, const Result& result) {
  return fmt::format("{}: {}{}{}", file, result.status, result.reason.empty() ? "" : ", ",
                     result.reason);
}

std::string unmatched_text(const char* file, const std::vector<Result>& results) {
  std::string out;
  for (const Result& result : results) {
    out += fmt::format("only in {}: {}\n", file, factors_line(result.factors));
  }
  return out;
}

std::string table_of(const Matches& matches) {
  std::vector<FactorTexts> factors;
  std::vector<double> medians;
  for (const auto& [a, b, _] : matches.pairs) {
    factors.push_back(b.factors);
    medians.insert(medians.end(), {a.median, b.median});
  }
  const Scale scale = scale_for(medians, "s");
  TextTable table(factors);
  table.column("verdict", TextTable::Align::left);
  table.column("change", TextTable::Align::right);
  for (const char* file : {"A", "B"}) {
    table.column(head_for(file, "s", scale), TextTable::Align::right);
    table.column("95% interval", TextTable::Align::right);
  }
  for (const auto& [a, b, verdict] : matches.pairs) {
    if (!a.ok() || !b.ok()) {
      table.row({verdict}, status_text("A", a) + "; " + status_text("B", b));
      continue;
    }
    const double change = 100 * (b.median / a.median - 1);
    table.row({verdict, std::isfinite(change) ? fmt::format("{:+.1f}%", change) : "-",
               scale.text(a.median), scale.interval_text(a.low, a.high), scale.text(b.median),
               scale.interval_text(b.low, b.high)});
  }
  return table.str();
}

}  // namespace

Comparison compare_files(const std::filesystem::path& a, const std::filesystem::path& b,
                         bool any_machine) {
  const Measured of_a = read(a, any_machine);
  const Measured of_b = read(b, any_machine);
  require_alike(of_a, of_b, any_machine);
  const Matches matches = match(of_a, of_b);
  if (matches.pairs.empty()) {
    throw UsageError(
        fmt::format("no case of {} has the factors of one in {}", b.string(), a.string()));
  }
  std::map<std::string, int> counts;
  for (const Pair& pair : matches.pairs) ++counts[pair.verdict];
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) parts.push_back(fmt::format("{} {}", count, verdict));
  return {.table = fmt::format("A = {}\nB = {}\n{}{}{}{}\n", a.string(), b.string(),
                               table_of(matches), unmatched_text("A", matches.only_a),
                               unmatched_text("B", matches.only_b), fmt::join(parts, ", ")),
          .regression = counts.contains("slower") || counts.contains("no longer ok")};
}

}  // namespace paceline
