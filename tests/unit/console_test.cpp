#include "record/console.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "core/text.h"
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

TEST(ConsoleTable, TextFactorsStandLeft) {
  EXPECT_EQ(table_of_records({make_record(128, spread_around(1), "small"),
                              make_record(128, spread_around(2), "2.7b")}),
            "context 128\n"
            "size   step [s]     95% interval\n"
            "small     1.000  0.9910 .. 1.009\n"
            "2.7b      2.000   1.982 .. 2.018\n");
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

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(TextTable, AnEmptyCellIsADash) {
  EXPECT_EQ(text_table({}, {{"sync", false, {"flat"}}, {"bucket_mb", true, {""}}}, {""}, 100),
            "sync  bucket_mb\n"
            "flat          -\n");
}

TEST(TextTable, HeadsAreBrokenWhereTheTableIsTooWide) {
  const std::string wide(70, 'x');
  const std::vector<TextColumn> columns = {{"a", false, {wide}},
                                           {"communication_exposed [ms]", true, {"1.5"}},
                                           {"step [s]", true, {"20"}}};
  EXPECT_EQ(text_table({}, columns, {""}, 100), std::string(72, ' ') + "communication  step\n" +  //
                                                    "a" + std::string(71, ' ') +
                                                    " exposed [ms]   [s]\n" +  //
                                                    wide + "            1.5    20\n");
  EXPECT_EQ(text_table({}, columns, {""}, 160),
            "a" + std::string(71, ' ') + "communication_exposed [ms]  step [s]\n" +  //
                wide + std::string(25, ' ') + "1.5        20\n");
}

// A key of 4 characters, then columns of 45, 10 and 12 characters.
TEST(TextTable, BreaksIntoBlocksThatBeginWithTheFactors) {
  const std::vector<FactorTexts> factors = {{{"key", "1"}}, {{"key", "1000"}}, {{"key", "3"}}};
  const std::vector<TextColumn> columns = {{std::string(45, 'a'), true, {"a1", "", "a3"}},
                                           {std::string(10, 'b'), true, {"b1", "", "b3"}},
                                           {std::string(12, 'c'), true, {"c1", "", "c3"}}};
  const auto gap = [](std::size_t n) { return std::string(n, ' '); };
  EXPECT_EQ(text_table(factors, columns, {"", "oom: no room", ""}, 63),
            " key  " + std::string(45, 'a') + "  bbbbbbbbbb\n" +  //
                "   1  " + gap(43) + "a1          b1\n" +         //
                "1000  oom: no room\n" +                          //
                "   3  " + gap(43) + "a3          b3\n" +         //
                "\n" +                                            //
                " key  cccccccccccc\n" +                          //
                "   1            c1\n" +                          //
                "1000             -\n" +                          //
                "   3            c3\n");
}

TEST(TextTable, IsAsWideAsItMayBe) {
  std::vector<TextColumn> columns;
  for (int i = 0; i < 30; ++i) {
    columns.push_back({"column" + std::to_string(i), true, {std::to_string(i)}});
  }
  for (const std::size_t width : {80U, 100U, 160U}) {
    const std::string text = text_table({{{"key", "k"}}}, columns, {""}, width);
    EXPECT_LE(widest_line(text), width);
    EXPECT_GT(widest_line(text), width - 10);
    for (const TextColumn& column : columns) {
      EXPECT_NE(text.find(column.head), std::string::npos) << column.head;
    }
  }
}

TEST(TextTable, AReasonTakesThePlaceOfTheMissingCells) {
  EXPECT_EQ(text_table({}, {{"verdict", false, {"worse", "gone"}}, {"A", true, {"1", ""}}},
                       {"", "oom: no room"}, 100),
            "verdict  A\n"
            "worse    1\n"
            "gone     oom: no room\n");
  EXPECT_EQ(text_table({}, {}, {"oom: no room"}, 100), "oom: no room\n");
}

TEST(TextTable, ConstantFactorsAreWrappedBetweenThem) {
  FactorTexts factors;
  for (int i = 0; i < 20; ++i) factors.emplace_back("factor_" + std::to_string(i), "a b");
  const std::string text = text_table({factors}, {}, {"x"}, 60);
  EXPECT_LE(widest_line(text), 60U);
  EXPECT_NE(text.find("factor_3 a b,\nfactor_4 a b,"), std::string::npos) << text;
  const auto first_line = [](std::size_t length) {
    return factors_line({{"a", std::string(length, 'x')}, {"b", "y"}, {"c", "z"}}).find('\n');
  };
  EXPECT_EQ(first_line(92), 100U);  // "a xx...x, b y,"
  EXPECT_EQ(first_line(93), 96U);   // "a xx...x,"
}

TEST(Wrapped, FillsLinesWithWholeWords) {
  EXPECT_EQ(wrapped("aa bb\ncc  dd", 5), "aa bb\ncc dd");
  EXPECT_EQ(wrapped("aaaaaaa b c", 5), "aaaaaaa\nb c");
  EXPECT_EQ(wrapped("", 5), "");
  EXPECT_EQ(wrapped("aa\nbb cc", 5), "aa\nbb cc");
}

TEST(Utf8, CodePointsOfEveryLength) {
  for (const char* text :
       {"", "plain\n", "\xc2\x80\xdf\xbf", "\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf",
        "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "M\xc3\xa4rz"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(Utf8, OtherBytes) {
  for (const char* text : {"\x80", "\xff", "a\xc3", "\xc3z", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf",
                           "\xed\xa0\x80", "\xe2\x82", "\xe2\x82z", "\xf0\x8f\xbf\xbf",
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf1\x80\x80z"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

}  // namespace
}  // namespace paceline
