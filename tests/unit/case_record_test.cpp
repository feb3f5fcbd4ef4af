#include "record/case_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "measure/case.h"
#include "record/descriptions.h"
#include "records.h"
#include "registry.h"

namespace paceline {
namespace {

std::vector<std::string> column_names(const auto& columns) {
  std::vector<std::string> out;
  for (const auto& column : columns) out.push_back(column.name);
  return out;
}

Column integer_column(std::string name, std::vector<std::int64_t> data) {
  return {std::move(name), "", std::move(data)};
}
Column real_column(std::string name, std::vector<double> data) {
  return {std::move(name), "", std::move(data)};
}
Column text_column(std::string name, std::vector<std::string> data) {
  return {std::move(name), "", std::move(data)};
}

TEST(SummaryRow, HasFactorsStatusStatisticsAndTheExperimentsColumns) {
  CaseRecord record = make_record(128, {});
  record.factors.set("deterministic", true);
  record.factors.set("lr", 0.5);
  record.samples = {{"step", {}, {{1, 5, 3}, {2, 4, 3}}}};
  record.summary = {{"tokens_per_s", 10.5, "1/s"}};
  const Row row = summary_row(record);
  EXPECT_EQ(
      column_names(row),
      (std::vector<std::string>{
          "case",         "size",          "context",       "deterministic", "lr",
          "status",       "reason",        "step_median_s", "step_ci_low_s", "step_ci_high_s",
          "step_mean_s",  "step_std_s",    "step_min_s",    "step_max_s",    "step_p95_s",
          "slowest_rank", "warmup_reason", "stop_reason",   "warnings",      "tokens_per_s"}));
  EXPECT_EQ(value_in<std::string>(row, "case"), record.id);
  EXPECT_EQ(value_in<std::string>(row, "size"), "small");
  EXPECT_EQ(value_in<std::int64_t>(row, "context"), 128);
  EXPECT_EQ(value_in<bool>(row, "deterministic"), true);
  EXPECT_EQ(value_in<double>(row, "lr"), 0.5);
  EXPECT_EQ(value_in<std::string>(row, "status"), "ok");
  // Over ranks: 2, 5, 3.
  EXPECT_EQ(value_in<double>(row, "step_median_s"), 3);
  EXPECT_EQ(value_in<double>(row, "step_max_s"), 5);
  EXPECT_EQ(value_in<double>(row, "step_min_s"), 2);
  EXPECT_DOUBLE_EQ(value_in<double>(row, "step_mean_s"), 10.0 / 3);
  EXPECT_TRUE(std::isnan(value_in<double>(row, "step_ci_low_s")));
  EXPECT_EQ(find_column(row, "step_p95_s")->unit, "s");
  EXPECT_EQ(find_column(row, "tokens_per_s")->unit, "1/s");
}

TEST(SummaryRow, TheHeadlineNamesTheSlowestRank) {
  CaseRecord record = make_record(128, {});
  record.samples = {{"forward", {}, {{9, 9}, {1, 1}}}, {"step", {}, {{1, 1}, {2, 2}}}};
  EXPECT_EQ(value_in<std::int64_t>(summary_row(record), "slowest_rank"), 1);
}

TEST(SummaryRow, WithoutSamplesHasNoStatistics) {
  const Row row = summary_row(make_oom(128));
  EXPECT_EQ(column_names(row),
            (std::vector<std::string>{"case", "size", "context", "status", "reason"}));
  EXPECT_EQ(value_in<std::string>(row, "status"), "oom");
  EXPECT_EQ(value_in<std::string>(row, "reason"), "2 GB asked for");
}

TEST(TableRows, RowsHaveTheColumnsOfTheFirst) {
  TableRows rows("memory");
  EXPECT_TRUE(rows.empty());
  rows.add({{"mark", std::string("start")}, {"bytes", std::int64_t{1}, "bytes"}, {"share", 0.5}});
  rows.add({{"mark", std::string("end")}, {"bytes", std::int64_t{2}}, {"share", 1.0}});
  const Cell mark{"mark", std::string("end")};
  const Cell bytes{"bytes", std::int64_t{3}};
  for (const std::vector<Cell>& other : {std::vector<Cell>{mark, bytes},
                                         {mark, bytes, {"share", std::int64_t{1}}},
                                         {mark, bytes, {"part", 1.0}},
                                         {mark, bytes, {"share", 1.0}, {"part", 1.0}}}) {
    TableRows copy = rows;
    EXPECT_THROW(copy.add(other), InternalError);
  }
  const Table table = rows.take();
  EXPECT_EQ(table.path, "memory");
  EXPECT_EQ(column_names(table.columns), (std::vector<std::string>{"mark", "bytes", "share"}));
  EXPECT_EQ(values<std::string>(table.columns, "mark"), (std::vector<std::string>{"start", "end"}));
  EXPECT_EQ(values<double>(table.columns, "share"), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(table.columns[1].unit, "bytes");
}

TEST(Concatenate, RowsBelowEachOther) {
  const auto all = concatenate({{integer_column("n", {1, 2}), text_column("name", {"a", "b"})},
                                {integer_column("n", {3}), text_column("name", {"c"})}});
  EXPECT_EQ(values<std::int64_t>(all, "n"), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(values<std::string>(all, "name"), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Concatenate, GapsAreNaNOrEmpty) {
  const auto all = concatenate({{integer_column("n", {1}), text_column("name", {"a"})},
                                {text_column("other", {"b"})},
                                {real_column("x", {0.5}), integer_column("n", {3})}});
  ASSERT_EQ(values<double>(all, "n").size(), 3U);  // integers with gaps become doubles
  EXPECT_EQ(values<double>(all, "n")[0], 1);
  EXPECT_TRUE(std::isnan(values<double>(all, "n")[1]));
  EXPECT_EQ(values<double>(all, "n")[2], 3);
  EXPECT_EQ(values<std::string>(all, "name"), (std::vector<std::string>{"a", "", ""}));
  EXPECT_EQ(values<std::string>(all, "other"), (std::vector<std::string>{"", "b", ""}));
  EXPECT_TRUE(std::isnan(values<double>(all, "x")[0]));
  EXPECT_EQ(values<double>(all, "x")[2], 0.5);
}

TEST(Concatenate, MixedTypesTakeTheWiderOne) {
  const auto all = concatenate({{integer_column("a", {1}), integer_column("b", {25})},
                                {real_column("a", {0.5}), text_column("b", {"none"})}});
  EXPECT_EQ(values<double>(all, "a"), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(values<std::string>(all, "b"), (std::vector<std::string>{"25", "none"}));
}

TEST(Concatenate, NewColumnsFollowTheirNeighbours) {
  const auto all = concatenate({{integer_column("size", {1}), integer_column("status", {1})},
                                {integer_column("size", {1}), integer_column("bucket", {1}),
                                 integer_column("status", {1}), integer_column("rate", {1})}});
  EXPECT_EQ(column_names(all), (std::vector<std::string>{"size", "bucket", "status", "rate"}));
}

TEST(Concatenate, KeepsUnits) {
  const auto all =
      concatenate({{{"t", "s", std::vector<double>{1}}}, {{"b", "bytes", std::vector<double>{1}}}});
  EXPECT_EQ(find_column(all, "t")->unit, "s");
  EXPECT_EQ(find_column(all, "b")->unit, "bytes");
  EXPECT_TRUE(concatenate({}).empty());
}

TEST(JsonLine, HasTheSummarysNames) {
  CaseRecord record = make_record(128, {1, 2, 3});
  record.factors.set("note", std::string("say \"hi\"\n"));
  record.summary = {{"rate", INFINITY, ""}, {"bytes", std::int64_t{1} << 60, "bytes"}};
  const std::string line = json_line(summary_row(record));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("note"), "say \"hi\"\n");
  EXPECT_EQ(json.at("step_median_s"), 2.0);
  EXPECT_TRUE(json.at("step_ci_low_s").is_null());
  EXPECT_TRUE(json.at("rate").is_null());
  EXPECT_EQ(json.at("bytes"), std::int64_t{1} << 60);
  EXPECT_EQ(line.substr(0, 9), "{\"case\":\"");  // in the summary's order
}

TEST(JsonLine, AcceptsTextThatIsNotUtf8) {
  CaseRecord record = make_oom(1);
  record.reason = "caf\xe9";
  const auto json = nlohmann::json::parse(json_line(summary_row(record)));
  EXPECT_EQ(json.at("reason"), "caf\xef\xbf\xbd");
}

Case sample_case() {
  Case c;
  c.set("size", std::string("small"));
  c.set("context", std::int64_t{128});
  c.set("lr", 1e-3);
  c.set("deterministic", true);
  return c;
}

TEST(CaseId, NamesFactorsAndIsStable) {
  // A literal: ids in files of older releases must not change.
  EXPECT_EQ(sample_case().id({"size", "context"}), "small-128-" + sample_case().id({}));
  EXPECT_EQ(sample_case().id({}).size(), 8U);
  EXPECT_EQ(sample_case().id({"size"}), "small-a5f26b5f");
}

TEST(CaseId, HasOnlyCharactersOfPlainFileNames) {
  Case c;
  c.set("path", std::string("a/b c\xc3\xa9:*.h5"));
  c.set("lr", 1e-8);
  const std::string id = c.id({"path", "lr"});
  EXPECT_EQ(id.substr(0, id.rfind('-')), "a_b_c____.h5-1e_08");
  c.set("path", std::string(1000, 'x'));
  EXPECT_LT(c.id({"path"}).size(), 200U);
}

TEST(CaseId, DiffersWithEveryFactor) {
  std::set<std::string> ids{sample_case().id({"size"})};
  Case c = sample_case();
  c.set("lr", 2e-3);
  ids.insert(c.id({"size"}));
  c = sample_case();
  c.set("context", 128.0);  // another type is another factor
  ids.insert(c.id({"size"}));
  c = sample_case();
  c.set("eps", 1e-8);
  ids.insert(c.id({"size"}));
  Case shifted;  // "ab", "c" against "a", "bc"
  shifted.set("ab", std::string("c"));
  ids.insert(shifted.id({}));
  shifted = {};
  shifted.set("a", std::string("bc"));
  ids.insert(shifted.id({}));
  EXPECT_EQ(ids.size(), 6U);
}

TEST(CaseId, IsNotTheNameOfAHiddenFile) {
  Case c = sample_case();
  c.set("size", std::string("../small"));
  EXPECT_TRUE(c.id({"size"}).starts_with("_._small-")) << c.id({"size"});
}

TEST(CaseId, EndsInItsHash) {
  EXPECT_TRUE(ends_in_case_hash(sample_case().id({"size", "context"})));
  EXPECT_TRUE(ends_in_case_hash(sample_case().id({})));
  for (const char* name : {"", "a", "0123abc", "0123ABCD", "notes", "0123abcd.h5"}) {
    EXPECT_FALSE(ends_in_case_hash(name)) << name;
  }
}

TEST(CaseId, IsAcceptedByIsCaseId) {
  EXPECT_TRUE(is_case_id(sample_case().id({"size", "context"})));
  for (const char* name :
       {"", ".", "..", "../0123abcd", "a/0123abcd", "-0123abcd", "a\n0123abcd", "a 0123abcd"}) {
    EXPECT_FALSE(is_case_id(name)) << name;
  }
  EXPECT_FALSE(is_case_id(std::string(300, 'a')));
}

TEST(Descriptions, AreUniqueAndNotEmpty) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const Description& d : descriptions()) {
    EXPECT_TRUE(seen.emplace(d.group, d.name).second) << d.group << ' ' << d.name;
    EXPECT_FALSE(d.text.empty()) << d.group << ' ' << d.name;
    EXPECT_EQ(d.unit.empty(), d.name.empty()) << d.group << ' ' << d.name;
    EXPECT_LE(std::count(d.name.begin(), d.name.end(), '*'), 1) << d.name;
  }
}

TEST(Descriptions, AreFoundByNameThenByPattern) {
  EXPECT_EQ(find_description("summary", "step_median_s")->name, "*_median_s");
  EXPECT_EQ(find_description("summary", "model_tflops_per_s")->name, "model_tflops_per_s");
  EXPECT_EQ(find_description("summary", "forward_tflops_per_s")->name, "*_tflops_per_s");
  EXPECT_EQ(find_description("summary", "_median_s"), nullptr);  // without a phase
  EXPECT_EQ(find_description("summary", "unheard_of"), nullptr);
  EXPECT_EQ(find_description("ranks", "step_median_s"), nullptr);
  EXPECT_NE(find_description("memory/blocks", ""), nullptr);
}

TEST(Descriptions, APatternsTextNamesWhatItStandsFor) {
  const Description* d = find_description("summary", "step_min_s");
  EXPECT_EQ(text_of(*d, "step_min_s"), "step: shortest repetition");
  EXPECT_EQ(unit_of("summary", "step_min_s"), "s");
  EXPECT_EQ(unit_of("summary", "mfu_measured"), "");
  EXPECT_EQ(unit_of("summary", "case"), "");
}

TEST(Descriptions, AFactorsNoteComesFirst) {
  std::vector<Column> columns = {{"bytes", "", std::vector<double>{1}},
                                 {"peak_bytes", "", std::vector<double>{1}},
                                 {"mfu_measured", "%", std::vector<double>{1}, "mine"},
                                 {"unheard_of", "", std::vector<double>{1}}};
  describe("summary", {{"bytes", "bytes", "of the buffer"}}, columns);
  EXPECT_EQ(columns[0].unit, "bytes");
  EXPECT_EQ(columns[0].description, "of the buffer");
  EXPECT_EQ(columns[1].unit, "bytes");
  EXPECT_FALSE(columns[1].description.empty());
  EXPECT_EQ(columns[2].unit, "%");
  EXPECT_EQ(columns[2].description, "mine");
  EXPECT_EQ(columns[3].unit + columns[3].description, "");
}

TEST(Descriptions, EveryFactorHasOne) {
  std::size_t factors = 0;
  for (const Registration& r : registry()) {
    for (const FactorNote& f : r.make()->factor_notes()) {
      EXPECT_FALSE(f.description.empty()) << r.name << ' ' << f.name;
      EXPECT_FALSE(f.description.starts_with(";")) << r.name << ' ' << f.name;
      ++factors;
    }
  }
  EXPECT_GT(factors, 80U);
}

}  // namespace
}  // namespace paceline
