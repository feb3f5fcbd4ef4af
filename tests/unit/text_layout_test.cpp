#include "record/text_layout.h"

#include <gtest/gtest.h>

#include <sstream>

namespace paceline {
namespace {

constexpr auto align_left = TextColumn::Align::left;
constexpr auto align_right = TextColumn::Align::right;

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(LaidOut, AnEmptyCellIsADash) {
  EXPECT_EQ(laid_out({{"sync", align_left}, {"bucket_mb", align_right}}, {{{"flat", ""}, ""}}, 2),
            "sync  bucket_mb\n"
            "flat          -\n");
}

TEST(LaidOut, HeadsAreBrokenWhereTheTableIsTooWide) {
  const std::string wide(70, 'x');
  EXPECT_EQ(laid_out({{"a", align_left},
                      {"communication_exposed [ms]", align_right},
                      {"step [s]", align_right}},
                     {{{wide, "1.5", "20"}, ""}}, 1),
            std::string(72, ' ') + "communication  step\n" +            //
                "a" + std::string(71, ' ') + " exposed [ms]   [s]\n" +  //
                wide + "            1.5    20\n");
}

// Column groups 45, 24 and 60 characters wide, after a key of 4 characters.
std::string three_groups() {
  const std::vector<TextColumn> columns = {{"key", align_right, 0},
                                           {std::string(45, 'a'), align_right, 1},
                                           {std::string(10, 'b'), align_right, 2},
                                           {std::string(12, 'c'), align_right, 2},
                                           {std::string(29, 'd'), align_right, 3},
                                           {std::string(29, 'e'), align_right, 3}};
  return laid_out(columns,
                  {{{"1", "a1", "b1", "c1", "d1", "e1"}, ""},
                   {{"1000"}, "oom: no room"},
                   {{"3", "a3", "b3", "c3", "d3", "e3"}, ""}},
                  1);
}

TEST(LaidOut, BreaksIntoBlocksBetweenGroups) {
  const auto gap = [](std::size_t n) { return std::string(n, ' '); };
  EXPECT_EQ(three_groups(), " key  " + std::string(45, 'a') + "  bbbbbbbbbb  cccccccccccc\n" +   //
                                "   1  " + gap(43) + "a1          b1            c1\n" +          //
                                "1000  oom: no room\n" +                                         //
                                "   3  " + gap(43) + "a3          b3            c3\n" +          //
                                "\n" +                                                           //
                                " key  " + std::string(29, 'd') + "  " + std::string(29, 'e') +  //
                                "\n   1  " + gap(27) + "d1  " + gap(27) + "e1\n" +               //
                                "1000  " + gap(28) + "-  " + gap(28) + "-\n" +                   //
                                "   3  " + gap(27) + "d3  " + gap(27) + "e3\n");
}

TEST(LaidOut, AGroupWiderThanALineIsBroken) {
  std::vector<TextColumn> columns = {{"key", align_left, 0}};
  TextRow row{{"k"}, ""};
  for (int i = 0; i < 30; ++i) {
    columns.push_back({"column" + std::to_string(i), align_right, 1});
    row.cells.push_back(std::to_string(i));
  }
  const std::string text = laid_out(columns, {row}, 1);
  EXPECT_LE(widest_line(text), 100U);
  EXPECT_GT(widest_line(text), 85U);
  for (const TextColumn& column : columns) {
    EXPECT_NE(text.find(column.head), std::string::npos) << column.head;
  }
}

TEST(LaidOut, RowsAreNumberedWhereTheirKeysFillALine) {
  const std::vector<TextColumn> columns = {{std::string(40, 'a'), align_left, 0},
                                           {std::string(40, 'b'), align_left, 0},
                                           {std::string(40, 'c'), align_right, 1}};
  const std::string text = laid_out(columns, {{{"x", "y", "1"}, ""}, {{"x", "z", "2"}, ""}}, 2);
  EXPECT_LE(widest_line(text), 100U);
  EXPECT_EQ(text, "#  " + std::string(40, 'a') + "  " + std::string(40, 'b') + "\n" +  //
                      "1  x" + std::string(41, ' ') + "y\n" +                          //
                      "2  x" + std::string(41, ' ') + "z\n" +                          //
                      "\n" +                                                           //
                      "#  " + std::string(40, 'c') + "\n" +                            //
                      "1  " + std::string(39, ' ') + "1\n" +                           //
                      "2  " + std::string(39, ' ') + "2\n");
}

TEST(LaidOut, ALongTailIsWrappedUnderItself) {
  std::string reason = "mismatch:";
  for (int i = 0; i < 20; ++i) reason += " word" + std::to_string(i);
  const std::string text =
      laid_out({{"context", align_right}, {"step [s]", align_right}}, {{{"128"}, reason}}, 1);
  EXPECT_EQ(text.substr(0, 36), "context  step [s]\n    128  mismatch:");
  EXPECT_LE(widest_line(text), 100U);
  EXPECT_NE(text.find("\n         word"), std::string::npos) << text;
}

TEST(LaidOut, WithoutColumnsTheTailsAreLeft) {
  EXPECT_EQ(laid_out({}, {{{}, "oom: no room"}}, 0), "oom: no room\n");
}

TEST(Wrapped, FillsLinesWithWholeWords) {
  EXPECT_EQ(wrapped("aa bb\ncc  dd", 5), "aa bb\ncc dd");
  EXPECT_EQ(wrapped("aaaaaaa b c", 5), "aaaaaaa\nb c");
  EXPECT_EQ(wrapped("", 5), "");
  EXPECT_EQ(wrapped("aa\nbb cc", 5), "aa\nbb cc");
}

}  // namespace
}  // namespace paceline
