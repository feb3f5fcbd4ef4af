#include "record/descriptions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "registry.h"

namespace paceline {
namespace {

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
