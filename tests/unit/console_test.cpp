#include "record/console.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "record/text_table.h"
#include "records.h"

namespace paceline {
namespace {

// 20 repetitions with median `center`; the interval extends from the 6th to the 16th.
std::vector<double> spread_around(double center) {
  std::vector<double> seconds;
  for (int i = 0; i < 20; ++i) seconds.push_back(center * (1 + 0.002 * (i - 9.5)));
  return seconds;
}

std::string table_of_records(const std::vector<CaseRecord>& records) {
  std::vector<Row> rows;
  for (const CaseRecord& record : records) rows.push_back(summary_row(record));
  return console_table(rows, record_factors, {});
}

TEST(ConsoleTable, AlignsRowsUnderTheirHeads) {
  CaseRecord a = make_record(128, {});
  a.samples = {{"forward", {}, {spread_around(0.01)}}, {"step", {}, {spread_around(0.5)}}};
  a.summary = {{"tokens_per_s", 123456.789, "1/s"},
               {"peak_bytes", std::int64_t{1'234'567'890}, "bytes"},
               {"setup_s", 1.0, "s"}};  // not among the shown columns
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
      "context  forward [s]  step [s]      95% interval  peak [GB]  tokens [1/s]\n"
      "    128      0.01000    0.5000  0.4955 .. 0.5055      1.235        123457\n"
      "   1024      0.02000     4.000                 -      23.40         9.877\n"
      "  65536  oom: 2 GB asked for\n");
}

TEST(ConsoleTable, OneRowHasItsFactorsAbove) {
  EXPECT_EQ(table_of_records({make_record(128, spread_around(0.01))}),
            "size small, context 128\n"
            "step [ms]    95% interval\n"
            "    10.00  9.910 .. 10.11\n");
}

TEST(ConsoleTable, TextFactorsStandLeft) {
  EXPECT_EQ(table_of_records({make_record(128, spread_around(1), "small"),
                              make_record(128, spread_around(2), "2.7b")}),
            "context 128\n"
            "size   step [s]     95% interval\n"
            "small     1.000  0.9910 .. 1.011\n"
            "2.7b      2.000   1.982 .. 2.022\n");
}

TEST(ConsoleTable, AMissingValueIsADash) {
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

TEST(ConsoleTable, AColumnWithAFormatShowsUnscaledNumbers) {
  Row row = {{"case", "a"}, {"status", "ok"}, {"sum", 10.00013}, {"bits", "0011"}};
  Row other = {{"case", "b"}, {"status", "ok"}, {"sum", -std::nan("")}, {"bits", "01"}};
  const Row none = {{"case", "c"}, {"status", "ok"}};
  const std::vector<ShownColumn> columns = {{"sum", "sum", "{:.4f}"}, {"bits", "bits"}};
  EXPECT_EQ(console_table({row, other, none}, {"case"}, columns),
            "case      sum  bits\n"
            "a     10.0001  0011\n"
            "b         nan  01\n"
            "c           -  -\n");
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

TEST(ConsoleTable, AFactorThatSomeRowsLackStandsInALineOfItsOwn) {
  const CaseRecord a = make_record(128, {1});
  CaseRecord b = make_record(256, {1});
  CaseRecord c = make_record(512, {1});
  std::vector<std::string> names = record_factors;
  names.emplace_back("optimizer");
  const auto lines_above = [&](const std::vector<Row>& rows) {
    std::istringstream stream(console_table(rows, names, {}));
    std::vector<std::string> lines(2);
    for (std::string& line : lines) std::getline(stream, line);
    return lines;
  };
  b.factors.set("optimizer", "serial");
  const std::vector<std::string> both = {"size small", "where applicable: optimizer serial"};
  EXPECT_EQ(lines_above({summary_row(a), summary_row(b)}), both);
  EXPECT_EQ(lines_above({summary_row(b), summary_row(a)}), both);
  EXPECT_EQ(lines_above({summary_row(b), summary_row(b)}).front(),
            "size small, context 256, optimizer serial");
  c.factors.set("optimizer", "in-backward");
  const std::string table =
      console_table({summary_row(a), summary_row(b), summary_row(c)}, names, {});
  EXPECT_EQ(table.find("where"), std::string::npos) << table;
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

// Two ranks, three repetitions; rank 1 is the slowest in the median repetition, which takes 6 s.
CaseRecord with_parts(int ranks) {
  CaseRecord record = make_record(128, {});
  record.factors.set("ranks", std::int64_t{ranks});
  record.samples = {{"forward", {}, {{1, 3, 3}, {1, 2, 2}}, true},
                    {"total", {}, {{9, 9, 9}, {8, 8, 8}}},
                    {"step", {}, {{3, 4, 5}, {2, 9, 6}}}};
  if (ranks > 1) return record;
  for (PhaseSamples& phase : record.samples) phase.measured.resize(1);
  return record;
}

TEST(ConsoleTable, PartsAddUpAndMaximaStandBesideThem) {
  EXPECT_EQ(console_table({summary_row(with_parts(2))}, record_factors, {}),
            "size small, context 128\n"
            "forward [s]  rest [s]  step [s]  95% interval  max forward [s]  max total [s]\n"
            "      2.000     4.000     6.000             -            3.000          9.000\n");
}

TEST(ConsoleTable, OneRankHasNoMaximaOverRanks) {
  EXPECT_EQ(console_table({summary_row(with_parts(1))}, record_factors, {}),
            "size small, context 128\n"
            "forward [s]  rest [s]  step [s]  95% interval  total [s]\n"
            "      3.000     1.000     4.000             -      9.000\n");
}

TEST(ConsoleTable, MeansHaveTheirStandardDeviation) {
  const TableOptions mean{.statistic = Statistic::mean};
  EXPECT_EQ(console_table({summary_row(with_parts(1))}, record_factors, {}, mean),
            "size small, context 128\n"
            "forward [s]  std [s]  rest [s]  step [s]  std [s]  total [s]  std [s]\n"
            "      2.333    1.155     1.667     4.000    1.000      9.000        0\n");
  // Steps take 3, 9 and 6 s; forward on the slowest rank takes 1, 2 and 2 s of them.
  EXPECT_EQ(console_table({summary_row(with_parts(2))}, record_factors, {}, mean),
            "size small, context 128\n"
            "forward [s]  rest [s]  step [s]  std [s]  max forward [s]  std [s]  max total [s]  "
            "std [s]\n"
            "      1.667     4.333     6.000    3.000            2.333    1.155          9.000  "
            "      0\n");
}

TEST(TimesNote, SaysWhatAddsUp) {
  const auto note = [](int ranks, Statistic statistic) {
    return times_note({summary_row(with_parts(ranks))}, {.statistic = statistic});
  };
  EXPECT_EQ(note(1, Statistic::median),
            "step: median over repetitions. forward, rest: in the repetition of the median (of an "
            "even number, averaged over the middle two); they add up to step, and rest is what no "
            "phase covers.");
  EXPECT_EQ(note(2, Statistic::mean),
            "step: mean over repetitions of the maximum over ranks. forward, rest: on the rank of "
            "that maximum, means over repetitions; they add up to step, and rest is what no phase "
            "covers. max: mean over repetitions of the maximum over ranks of each phase by itself. "
            "std: the standard deviation. Rates and shares are computed from the medians.");
  EXPECT_EQ(times_note({summary_row(make_record(1, {1}))}, {}), "times: median over repetitions.");
  EXPECT_EQ(times_note({}, {}), "");
}

TEST(ConsoleTable, ShowsTheRequestedColumns) {
  CaseRecord a = with_parts(1);
  a.summary = {{"calls", 21.0, ""}, {"peak_bytes", std::int64_t{2'000'000}, "bytes"}};
  const std::vector<Row> rows = {summary_row(a)};
  const TableOptions options{.columns = {"status", "peak_bytes", "calls"}};
  EXPECT_EQ(console_table(rows, record_factors, {{"loss", "loss"}}, options),
            "size small, context 128\n"
            "status  peak [MB]  calls\n"
            "ok          2.000     21\n");
  EXPECT_EQ(times_note(rows, options), "");
}

TEST(ConsoleTable, RequestedIntegersStayIntegers) {
  CaseRecord a = make_record(128, {1});
  a.summary = {{"tokens", std::int64_t{4}, "tokens"}, {"rate", 4.0, "1/s"}};
  EXPECT_EQ(console_table({summary_row(a)}, record_factors, {}, {.columns = {"tokens", "rate"}}),
            "size small, context 128\n"
            "tokens [tokens]  rate [1/s]\n"
            "              4       4.000\n");
}

TEST(ConsoleTable, ARequestedFactorIsNotShownTwice) {
  const std::vector<Row> rows = {summary_row(make_record(128, {1})),
                                 summary_row(make_record(256, {1}))};
  EXPECT_EQ(console_table(rows, record_factors, {}, {.columns = {"context", "status"}}),
            "size small\n"
            "context  status\n"
            "    128  ok\n"
            "    256  ok\n");
}

TEST(UnknownColumns, AreNamedWithASuggestion) {
  const std::vector<Row> rows = {{{"size", std::string("tiny")}, {"step_median_s", 1.0, "s"}}};
  EXPECT_EQ(unknown_columns(rows, {"step_median_s", "size"}), "");
  EXPECT_EQ(unknown_columns(rows, {"step_mdian_s", "size", "x"}),
            "the summary has no step_mdian_s (did you mean step_median_s?), x");
}

TEST(ConsoleTable, AsMarkdown) {
  CaseRecord oom = make_oom(256);
  oom.reason = "a | b";
  const TableOptions md{.format = TableFormat::md};
  EXPECT_EQ(console_table({summary_row(make_record(128, spread_around(0.01))), summary_row(oom)},
                          record_factors, {}, md),
            "size small\n"
            "\n"
            "| context | step [ms] | 95% interval |\n"
            "|---:|---:|---:|\n"
            "| 128 | 10.00 | 9.910 .. 10.11 |\n"
            "| 256 | oom: a \\| b |  |\n");
  EXPECT_EQ(console_table({summary_row(oom)}, record_factors, {}, md),
            "size small, context 256\n"
            "\n"
            "| status |\n"
            "|---|\n"
            "| oom: a \\| b |\n");
}

TEST(ConsoleTable, AsCsvHasAllDigitsAndNoGapsButMissingValues) {
  CaseRecord oom = make_oom(256);
  oom.reason = "2 GB, \"more\" than there is; rank 0";
  const TableOptions csv{.format = TableFormat::csv};
  EXPECT_EQ(console_table({summary_row(make_record(128, {0.1, 0.2, 0.3})), summary_row(oom)},
                          {"size", "context", "absent"}, {}, csv),
            "size,context,status,reason,step_median_s,step_ci_low_s,step_ci_high_s\n"
            "small,128,ok,,0.2,,\n"
            "small,256,oom,\"2 GB, \"\"more\"\" than there is; rank 0\",,,\n");
}

TEST(ConsoleTable, WithoutOkRowsThereAreNoColumnsOfFigures) {
  EXPECT_EQ(table_of_records({make_oom(128), make_oom(256)}),
            "size small\n"
            "context\n"
            "    128  oom: 2 GB asked for\n"
            "    256  oom: 2 GB asked for\n");
}

TEST(ClosingTable, NamesACaseByItsFactors) {
  CaseRecord a = make_record(128, {1});
  CaseRecord b = make_record(256, {1});
  const std::vector<Row> rows = {summary_row(a), summary_row(b)};
  const Table table{"speed_up",
                    {{"case", "", std::vector<std::string>{a.id, b.id}},
                     {"both", "", std::vector<double>{1.5, 20}}}};
  EXPECT_EQ(closing_table(table, rows, record_factors, TableFormat::text),
            "size small\n"
            "context   both\n"
            "    128  1.500\n"
            "    256  20.00\n");
  EXPECT_EQ(closing_table(table, rows, record_factors, TableFormat::md),
            "size small\n\n"
            "| context | both |\n"
            "|---:|---:|\n"
            "| 128 | 1.500 |\n"
            "| 256 | 20.00 |\n");
}

TEST(ClosingTable, ColumnsAfterTheFirstMeasuredOneStayInTheirPlaces) {
  const Table table{"choice",
                    {{"of", "", std::vector<std::string>{"a", "b"}},
                     {"step_s", "s", std::vector<double>{0.001, 0.002}},
                     {"fastest", "", std::vector<std::string>{"x", "x"}},
                     {"calls", "", std::vector<std::int64_t>{1, 20}}}};
  EXPECT_EQ(closing_table(table, {}, {}, TableFormat::text),
            "of  step [ms]  fastest  calls\n"
            "a       1.000  x            1\n"
            "b       2.000  x           20\n");
}

TEST(ClosingTable, AnEmptyTextIsNotTakenForThatOfAnotherRow) {
  const Table table{"breaks",
                    {{"of", "", std::vector<std::string>{"a", "b"}},
                     {"from", "", std::vector<std::string>{"1", ""}}}};
  EXPECT_EQ(closing_table(table, {}, {}, TableFormat::text),
            "of  from\n"
            "a      1\n"
            "b      -\n");
}

TEST(ClosingTable, AMeasuredColumnThatIsAFactorIsNotShownTwice) {
  CaseRecord a = make_record(128, {1});
  const Table table{"predict",
                    {{"case", "", std::vector<std::string>{a.id}},
                     {"context", "", std::vector<double>{128}},
                     {"both", "", std::vector<double>{1.5}}}};
  EXPECT_EQ(closing_table(table, {summary_row(a)}, record_factors, TableFormat::text),
            "size small, context 128\n"
            " both\n"
            "1.500\n");
}

TEST(ConsoleTable, WithoutRowsIsEmpty) { EXPECT_EQ(console_table({}, record_factors, {}), ""); }

TEST(ShortReason, LeavesTheDetailsToTheFile) {
  EXPECT_EQ(short_reason("oom", "rank 0: about 2 GB are needed; 1 GB"),
            "oom: rank 0: about 2 GB are needed");
  EXPECT_EQ(short_reason("skipped", "no GPU"), "skipped: no GPU");
}

TEST(ScaleFor, SuitsTheMiddleValue) {
  EXPECT_EQ(display_unit_for({1e-3, 2e-3, 5}, "s").unit, "ms");
  EXPECT_EQ(display_unit_for({1, 2, 5}, "s").unit, "s");
  EXPECT_EQ(display_unit_for({3e-6}, "s").unit, "us");
  EXPECT_EQ(display_unit_for({3e-12}, "s").unit, "ns");
  EXPECT_EQ(display_unit_for({std::nan("")}, "s").unit, "s");
  EXPECT_EQ(display_unit_for({5e9, 2e6, 1e9}, "bytes").unit, "GB");
  EXPECT_EQ(display_unit_for({0}, "bytes").unit, "B");
  EXPECT_EQ(display_unit_for({2e12}, "FLOP/s").unit, "TFLOP/s");
  EXPECT_EQ(display_unit_for({2e5}, "1/s").unit, "1/s");
  EXPECT_EQ(display_unit_for({2e12}, "FLOP/s").text(2.5e12), "2.500");
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
  EXPECT_EQ(json.at("deterministic"), true);
  EXPECT_EQ(json.at("status"), "ok");
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

}  // namespace
}  // namespace paceline
