#include "record/console.h"

#include <gtest/gtest.h>

#include <cmath>

#include "records.h"

namespace paceline {
namespace {

// 20 repetitions with median `center`; the interval extends from the 6th to the 16th.
// Short and long ones by turns, so that the autocorrelation is not positive.
std::vector<double> spread_around(double center) {
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) {
    const double by = 0.002 * (9.5 - i);
    seconds.insert(seconds.end(), {center * (1 - by), center * (1 + by)});
  }
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
      "context  step [s]      95% interval  forward [s]  peak [GB]  tokens [1/s]\n"
      "    128    0.5000  0.4955 .. 0.5045      0.01000      1.235        123457\n"
      "   1024     4.000                 -      0.02000      23.40         9.877\n"
      "  65536  oom: 2 GB asked for\n");
}

TEST(ConsoleTable, OneRowHasItsFactorsAbove) {
  EXPECT_EQ(table_of_records({make_record(128, spread_around(0.01))}),
            "size small, context 128\n"
            "step [ms]    95% interval\n"
            "    10.00  9.910 .. 10.09\n");
}

TEST(ConsoleTable, TextFactorsStandLeft) {
  EXPECT_EQ(table_of_records({make_record(128, spread_around(1), "small"),
                              make_record(128, spread_around(2), "2.7b")}),
            "context 128\n"
            "size   step [s]     95% interval\n"
            "small     1.000  0.9910 .. 1.009\n"
            "2.7b      2.000   1.982 .. 2.018\n");
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

TEST(ConsoleTable, AFactorThatSomeRowsLackIsSaidToApplyToOthersOnly) {
  const CaseRecord a = make_record(128, {1});
  CaseRecord b = make_record(256, {1});
  CaseRecord c = make_record(512, {1});
  std::vector<std::string> names = record_factors;
  names.emplace_back("optimizer");
  const auto line_above = [&](const std::vector<Row>& rows) {
    const std::string table = console_table(rows, names, {});
    return table.substr(0, table.find('\n'));
  };
  b.factors.set("optimizer", "serial");
  const std::string both = "size small, optimizer serial where applicable";
  EXPECT_EQ(line_above({summary_row(a), summary_row(b)}), both);
  EXPECT_EQ(line_above({summary_row(b), summary_row(a)}), both);
  EXPECT_EQ(line_above({summary_row(b), summary_row(b)}),
            "size small, context 256, optimizer serial");
  c.factors.set("optimizer", "in-backward");
  EXPECT_EQ(line_above({summary_row(a), summary_row(b), summary_row(c)}), "size small");
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
            "step [s]  95% interval  forward [s]  rest [s]  max forward [s]  max total [s]\n"
            "   6.000             -        2.000     4.000            3.000          9.000\n");
}

TEST(ConsoleTable, OneRankHasNoMaximaOverRanks) {
  EXPECT_EQ(console_table({summary_row(with_parts(1))}, record_factors, {}),
            "size small, context 128\n"
            "step [s]  95% interval  forward [s]  rest [s]  total [s]\n"
            "   4.000             -        3.000     1.000      9.000\n");
}

TEST(TimesNote, SaysWhatAddsUp) {
  const auto note = [](int ranks) { return times_note({summary_row(with_parts(ranks))}); };
  EXPECT_EQ(note(1),
            "step: median over repetitions. forward, rest: in the repetition of the median (of an "
            "even number, averaged over the middle two); they add up to step, and rest is what no "
            "phase covers.");
  EXPECT_EQ(note(2),
            "step: median over repetitions of the maximum over ranks. forward, rest: on the rank "
            "of that maximum, in the repetition of the median (of an even number, averaged over "
            "the middle two); they add up to step, and rest is what no phase covers. max: median "
            "over repetitions of the maximum over ranks of each phase by itself.");
  EXPECT_EQ(times_note({summary_row(make_record(1, {1}))}), "times: median over repetitions.");
  EXPECT_EQ(times_note({}), "");
}

TEST(ConsoleTable, WithoutOkRowsThereAreNoColumnsOfFigures) {
  EXPECT_EQ(table_of_records({make_oom(128), make_oom(256)}),
            "size small\n"
            "context\n"
            "    128  oom: 2 GB asked for\n"
            "    256  oom: 2 GB asked for\n");
}

TEST(ClosingTable, NamesACaseByTheFactorsThatVary) {
  CaseRecord a = make_record(128, {1});
  CaseRecord b = make_record(256, {1});
  const std::vector<Row> rows = {summary_row(a), summary_row(b)};
  const Table table{"speed_up",
                    {{"case", "", std::vector<std::string>{a.id, b.id}},
                     {"both", "", std::vector<double>{1.5, 20}}}};
  EXPECT_EQ(closing_table(table, rows, record_factors),
            "context   both\n"
            "    128  1.500\n"
            "    256  20.00\n");
}

TEST(ClosingTable, ColumnsAfterTheFirstMeasuredOneStayInTheirPlaces) {
  const Table table{"choice",
                    {{"of", "", std::vector<std::string>{"a", "b"}},
                     {"step_s", "s", std::vector<double>{0.001, 0.002}},
                     {"fastest", "", std::vector<std::string>{"x", "x"}},
                     {"calls", "", std::vector<std::int64_t>{1, 20}}}};
  EXPECT_EQ(closing_table(table, {}, {}),
            "of  step [ms]  fastest  calls\n"
            "a       1.000  x            1\n"
            "b       2.000  x           20\n");
}

TEST(ClosingTable, AnEmptyTextIsNotTakenForThatOfAnotherRow) {
  const Table table{"breaks",
                    {{"of", "", std::vector<std::string>{"a", "b"}},
                     {"from", "", std::vector<std::string>{"1", ""}}}};
  EXPECT_EQ(closing_table(table, {}, {}),
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
  EXPECT_EQ(closing_table(table, {summary_row(a)}, record_factors),
            " both\n"
            "1.500\n");
}

TEST(ConsoleTable, WithoutRowsIsEmpty) { EXPECT_EQ(console_table({}, record_factors, {}), ""); }

}  // namespace
}  // namespace paceline
