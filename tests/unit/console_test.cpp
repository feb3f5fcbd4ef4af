#include "record/console.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "record/text_table.h"
#include "records.h"

namespace paceline {
namespace {

// 20 repetitions with median `center`: the interval is from the 6th to the 16th.
std::vector<double> around(double center) {
  std::vector<double> seconds;
  for (int i = 0; i < 20; ++i) seconds.push_back(center * (1 + 0.002 * (i - 9.5)));
  return seconds;
}

std::string table_of(const std::vector<CaseRecord>& records) {
  std::vector<Row> rows;
  for (const CaseRecord& record : records) rows.push_back(summary_row(record));
  return console_table(rows, record_factors, {});
}

TEST(ConsoleTable, AlignsRowsUnderTheirHeads) {
  CaseRecord a = make_record(128, {});
  a.samples = {{"forward", {}, {around(0.01)}}, {"step", {}, {around(0.5)}}};
  a.summary = {{"tokens_per_s", 123456.789, "1/s"},
               {"peak_bytes", std::int64_t{1'234'567'890}, "bytes"},
               {"setup_s", 1.0, "s"}};  // not asked for
  CaseRecord b = make_record(1024, {});
  b.samples = {{"forward", {}, {{0.0123456789012345, 0.02, 0.03}}},
               {"step", {}, {{3.99, 4.00, 4.01}}}};
  b.summary = {{"tokens_per_s", 9.87654321, "1/s"},
               {"peak_bytes", std::int64_t{23'400'000'000}, "bytes"}};
  const CaseRecord c = make_oom(65536);
  const std::vector<ShownColumn> columns = {{"peak_bytes", "peak"}, {"tokens_per_s", "tokens"}};
  EXPECT_EQ(
      console_table({summary_row(a), summary_row(b), summary_row(c)}, record_factors, columns),
      "size small\n"
      "context  forward [ms]  step [s]      95% interval  peak [GB]  tokens [1/s]\n"
      "    128         10.00    0.5000  0.4955 .. 0.5055      1.235        123457\n"
      "   1024         20.00     4.000                 -      23.40         9.877\n"
      "  65536  oom: 2 GB asked for\n");
}

TEST(ConsoleTable, OneRowHasItsFactorsAbove) {
  EXPECT_EQ(table_of({make_record(128, around(0.01))}),
            "size small, context 128\n"
            "step [ms]    95% interval\n"
            "    10.00  9.910 .. 10.11\n");
}

TEST(ConsoleTable, TextFactorsStandLeft) {
  EXPECT_EQ(table_of({make_record(128, around(1), "small"), make_record(128, around(2), "2.7b")}),
            "context 128\n"
            "size   step [s]     95% interval\n"
            "small     1.000  0.9910 .. 1.011\n"
            "2.7b      2.000   1.982 .. 2.022\n");
}

TEST(ConsoleTable, AColumnThatARowLacksIsADash) {
  CaseRecord a = make_record(128, {1});
  a.summary = {{"mfu", 0.5, ""}};
  const CaseRecord b = make_record(256, {1});
  EXPECT_EQ(console_table({summary_row(b), summary_row(a)}, record_factors, {{"mfu", "MFU"}}),
            "size small\n"
            "context  step [s]  95% interval     MFU\n"
            "    256     1.000             -       -\n"
            "    128     1.000             -  0.5000\n");
}

TEST(ConsoleTable, NeverShowsAllDigits) {
  CaseRecord a = make_record(128, {1.0 / 3, 1.0 / 3, 1.0 / 3});
  a.summary = {{"x", 0.1 + 0.2, ""}, {"flops", 1e14 / 3, "FLOP/s"}};
  const std::string table =
      console_table({summary_row(a)}, record_factors, {{"x", "x"}, {"flops", "flops"}});
  EXPECT_FALSE(std::regex_search(table, std::regex(R"([\d.]{9,})"))) << table;
  EXPECT_NE(table.find("flops [TFLOP/s]"), std::string::npos) << table;
  EXPECT_NE(table.find("33.33"), std::string::npos) << table;
}

TEST(ConsoleTable, DetailsOfAReasonStayInTheFile) {
  EXPECT_EQ(short_reason("oom", "2 GB asked for; 1 GB is free"), "oom: 2 GB asked for");
  EXPECT_EQ(short_reason("skipped", "one rank"), "skipped: one rank");
}

TEST(ConsoleTable, FactorsThatAreNotNamedAreNotShown) {
  CaseRecord a = make_record(128, {1});
  a.factors.set("lr", 0.001);
  EXPECT_EQ(console_table({summary_row(a)}, record_factors, {}),
            "size small, context 128\n"
            "step [s]  95% interval\n"
            "   1.000             -\n");
}

TEST(ConsoleTable, TheLineOfConstantFactorsIsWrapped) {
  CaseRecord a = make_record(128, {1});
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) {
    names.push_back("factor_" + std::to_string(i));
    a.factors.set(names.back(), std::int64_t{i});
  }
  const std::string table = console_table({summary_row(a)}, names, {});
  std::size_t lines = 0;
  std::istringstream stream(table);
  for (std::string line; std::getline(stream, line); ++lines) {
    EXPECT_LE(line.size(), 100U);
    EXPECT_TRUE(line.empty() || line.back() != ' ') << "'" << line << "'";
  }
  EXPECT_EQ(lines, 5U);
  EXPECT_NE(table.find("factor_7 7,\nfactor_8 8"), std::string::npos) << table;
}

TEST(FactorsLine, ALineHasAHundredColumnsAtMost) {
  const auto first_line = [](std::size_t length) {
    return factors_line({{"a", std::string(length, 'x')}, {"b", "y"}, {"c", "z"}}).find('\n');
  };
  EXPECT_EQ(first_line(92), 100U);  // "a xx...x, b y,"
  EXPECT_EQ(first_line(93), 96U);   // "a xx...x,"
}

TEST(ConsoleTable, WithoutRowsIsEmpty) { EXPECT_EQ(console_table({}, record_factors, {}), ""); }

TEST(ShortReason, LeavesTheDetailsToTheFile) {
  EXPECT_EQ(short_reason("oom", "about 2 GB are needed; rank 0: 1 GB"),
            "oom: about 2 GB are needed");
  EXPECT_EQ(short_reason("skipped", "no GPU"), "skipped: no GPU");
}

TEST(ScaleFor, SuitsTheMiddleValue) {
  EXPECT_EQ(scale_for({1e-3, 2e-3, 5}, "s").unit, "ms");
  EXPECT_EQ(scale_for({1, 2, 5}, "s").unit, "s");
  EXPECT_EQ(scale_for({3e-6}, "s").unit, "us");
  EXPECT_EQ(scale_for({3e-12}, "s").unit, "ns");
  EXPECT_EQ(scale_for({std::nan("")}, "s").unit, "s");
  EXPECT_EQ(scale_for({5e9, 2e6, 1e9}, "bytes").unit, "GB");
  EXPECT_EQ(scale_for({0}, "bytes").unit, "B");
  EXPECT_EQ(scale_for({2e12}, "FLOP/s").unit, "TFLOP/s");
  EXPECT_EQ(scale_for({2e5}, "1/s").unit, "1/s");
  EXPECT_EQ(scale_for({2e12}, "FLOP/s").text(2.5e12), "2.500");
}

TEST(JsonLine, HasTheSummarysNames) {
  CaseRecord record = make_record(128, {1, 2, 3});
  record.factors.set("note", std::string("say \"hi\"\n"));
  record.factors.set("deterministic", true);
  record.summary = {{"rate", INFINITY, ""}, {"bytes", std::int64_t{1} << 60, "bytes"}};
  const std::string line = json_line(summary_row(record));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("case"), record.id);
  EXPECT_EQ(json.at("size"), "small");
  EXPECT_EQ(json.at("context"), 128);
  EXPECT_EQ(json.at("note"), "say \"hi\"\n");
  EXPECT_EQ(json.at("deterministic"), 1);
  EXPECT_EQ(json.at("status"), "ok");
  EXPECT_EQ(json.at("step_median_s"), 2.0);
  EXPECT_TRUE(json.at("step_ci_low_s").is_null());
  EXPECT_TRUE(json.at("rate").is_null());
  EXPECT_EQ(json.at("bytes"), std::int64_t{1} << 60);
  EXPECT_EQ(line.substr(0, 9), "{\"case\":\"");  // in the summary's order
}

TEST(JsonLine, SurvivesTextThatIsNotUtf8) {
  CaseRecord record = make_oom(1);
  record.reason = "caf\xe9";
  const auto json = nlohmann::json::parse(json_line(summary_row(record)));
  EXPECT_EQ(json.at("reason"), "caf\xef\xbf\xbd");
}

}  // namespace
}  // namespace paceline
