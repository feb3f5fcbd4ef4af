#include "record/comparison_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "record/case_record.h"
#include "record/console.h"
#include "record/text_table.h"

namespace paceline {

namespace {

constexpr const char* below_table =
    "A, B: medians over repetitions of the slowest rank; B / A: with the interval on which "
    "the verdict\nis based (docs/measuring.md)\n";
constexpr const char* more_repetitions =
    "undecided without an interval: that needs 6 repetitions of every run (--steps)\n";
constexpr const char* no_times =
    "undecided: these results have no times; --reference F.toml compares their values\n";
constexpr const char* more_pairs =
    "undecided: run both sides alternately and give all files, A1.h5 B1.h5 A2.h5 B2.h5 ...:\n"
    "from {} pairs on the variation between runs decides\n";

std::string paths_line(const char* side, const std::vector<std::filesystem::path>& paths) {
  std::vector<std::string> texts;
  for (const std::filesystem::path& path : paths) texts.push_back(path.string());
  return fmt::format("{} = {}\n", side, fmt::join(texts, ", "));
}

std::string status_text(const char* side, const ComparedSide& s) {
  return fmt::format("{}: {}{}{}", side, s.status, s.reason.empty() ? "" : ", ", s.reason);
}

std::string table_of(const std::vector<ComparedCase>& cases) {
  std::vector<FactorTexts> factors;
  std::vector<double> medians;
  for (const ComparedCase& c : cases) {
    factors.push_back(c.key);
    medians.insert(medians.end(), {c.a.median, c.b.median});
  }
  const DisplayUnit display = display_unit_for(medians, "s");
  const DisplayUnit plain;
  TextTable table(factors);
  table.column("verdict", TextTable::Align::left);
  for (const std::string& head :
       {head_for("A", "s", display), head_for("B", "s", display), std::string("B / A"),
        std::string("interval"), std::string("pairs"), std::string("repetitions")}) {
    table.column(head, TextTable::Align::right);
  }
  for (const ComparedCase& c : cases) {
    if (!c.measured() || c.verdict == "no longer ok") {
      table.row({c.verdict}, status_text("A", c.a) + "; " + status_text("B", c.b));
      continue;
    }
    table.row({c.verdict, display.text(c.a.median), display.text(c.b.median),
               plain.text(c.ratio.ratio), plain.interval_text(c.ratio.low, c.ratio.high),
               std::to_string(c.pairs), fmt::format("{}, {}", c.a.repetitions, c.b.repetitions)});
  }
  return table.str();
}

// What the table's columns mean, and what would decide an undecided case.
std::string notes_on(const std::vector<ComparedCase>& cases) {
  const auto any = [&](auto is) { return std::any_of(cases.begin(), cases.end(), is); };
  const auto untimed = [](const ComparedCase& c) {
    return c.verdict == "undecided" && c.a.repetitions + c.b.repetitions == 0;
  };
  const auto no_interval = [&](const ComparedCase& c) {
    return c.verdict == "undecided" && std::isnan(c.ratio.low) && !untimed(c);
  };
  const auto few_pairs = [&](const ComparedCase& c) {
    return c.verdict == "undecided" && !std::isnan(c.ratio.low) && c.pairs < pairs_for_sign_test;
  };
  std::string out;
  if (any([](const ComparedCase& c) { return c.measured(); })) out += below_table;
  if (any(untimed)) out += no_times;
  if (any(no_interval)) out += more_repetitions;
  if (any(few_pairs)) out += fmt::format(more_pairs, pairs_for_sign_test);
  return out;
}

// "1 faster, 1 slower"
std::string counts_text(const auto& results, const auto& verdict_of) {
  std::map<std::string, int> counts;
  for (const auto& result : results) ++counts[std::string(verdict_of(result))];
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) parts.push_back(fmt::format("{} {}", count, verdict));
  return fmt::format("{}\n", fmt::join(parts, ", "));
}

// Cases without a counterpart, by the factors in which not all cases agree; by all factors if those
// are none, as for another seed.
std::string unmatched_text(const Comparison& comparison) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  std::size_t all = 0;
  const auto count = [&](const auto& cases) {
    all += cases.size();
    for (const auto& c : cases) {
      for (const auto& factor : c.key) ++counts[factor];
    }
  };
  count(comparison.cases);
  std::string out;
  const std::vector<std::pair<const char*, const std::vector<UnmatchedCase>*>> unmatched = {
      {"only in A", &comparison.only_a},
      {"only in B", &comparison.only_b},
      {"in no pair", &comparison.no_pair}};
  for (const auto& [where, cases] : unmatched) count(*cases);
  for (const auto& [where, cases] : unmatched) {
    for (const UnmatchedCase& c : *cases) {
      FactorTexts key = c.key;
      std::erase_if(key, [&](const auto& factor) { return counts.at(factor) == all; });
      if (key.empty()) key = c.key;
      out += fmt::format("{}: {}\n", where, factors_line(key));
    }
  }
  return out;
}

Row row_of(const Case& factors) {
  Row row;
  for (const auto& [name, value] : factors.factors()) row.push_back({name, value});
  return row;
}

std::string unmatched_json(const char* where, const std::vector<UnmatchedCase>& cases) {
  std::string out;
  for (const UnmatchedCase& c : cases) {
    Row row = row_of(c.factors);
    row.push_back({"verdict", std::string(where)});
    out += json_line(row) + '\n';
  }
  return out;
}

std::string one_line(const FactorTexts& factors) {
  std::string line = factors_line(factors);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string references_text(const std::vector<ReferenceResult>& references) {
  if (references.empty()) return "";
  TextTable table;
  table.column("verdict", TextTable::Align::left);
  table.column("B", TextTable::Align::right);
  table.column("reference", TextTable::Align::right);
  table.column("tolerance", TextTable::Align::right);
  table.column("better", TextTable::Align::left);
  table.column("column and case", TextTable::Align::left);
  const DisplayUnit plain;
  for (const auto& [reference, verdict, measured] : references) {
    table.row({std::string(name_of(verdict)), plain.text(measured), plain.text(reference.value),
               fmt::format("{}%", reference.tolerance), std::string(name_of(reference.better)),
               fmt::format("{}: {}", reference.column, one_line(texts_of(reference.factors)))});
  }
  return '\n' + table.str() + "reference: " + counts_text(references, [](const ReferenceResult& r) {
           return name_of(r.verdict);
         });
}

std::string references_json(const std::vector<ReferenceResult>& references) {
  std::string out;
  for (const auto& [reference, verdict, measured] : references) {
    Row row = row_of(reference.factors);
    row.push_back({"column", reference.column});
    row.push_back({"reference", reference.value});
    row.push_back({"tolerance_percent", reference.tolerance});
    row.push_back({"better", std::string(name_of(reference.better))});
    row.push_back({"measured", measured});
    row.push_back({"verdict", std::string(name_of(verdict))});
    out += json_line(row) + '\n';
  }
  return out;
}

void add_side(Row& row, const std::string& name, const ComparedSide& side) {
  row.push_back({name + "_status", side.status});
  row.push_back({name + "_reason", side.reason});
  row.push_back({name + "_median_s", side.median});
  row.push_back({name + "_repetitions", static_cast<std::int64_t>(side.repetitions)});
}

}  // namespace

std::string comparison_table(const Comparison& comparison) {
  return paths_line("A", comparison.a) + paths_line("B", comparison.b) +
         table_of(comparison.cases) + unmatched_text(comparison) + notes_on(comparison.cases) +
         counts_text(comparison.cases, [](const ComparedCase& c) { return c.verdict; }) +
         references_text(comparison.references);
}

std::string comparison_json(const Comparison& comparison) {
  std::string out;
  for (const ComparedCase& c : comparison.cases) {
    Row row = row_of(c.factors);
    row.push_back({"verdict", c.verdict});
    add_side(row, "a", c.a);
    add_side(row, "b", c.b);
    row.push_back({"ratio", c.ratio.ratio});
    row.push_back({"ratio_low", c.ratio.low});
    row.push_back({"ratio_high", c.ratio.high});
    row.push_back({"pairs", static_cast<std::int64_t>(c.pairs)});
    out += json_line(row) + '\n';
  }
  return out + unmatched_json("only in A", comparison.only_a) +
         unmatched_json("only in B", comparison.only_b) +
         unmatched_json("in no pair", comparison.no_pair) + references_json(comparison.references);
}

}  // namespace paceline
