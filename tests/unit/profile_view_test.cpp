#include "record/profile_view.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

Row kernel(std::int64_t rank, const std::string& name, double total) {
  return {{"rank", rank},      {"phase", "forward"},  {"operation", "matmul"},
          {"kernel", name},    {"calls", 2.0},        {"total", total},
          {"mean", total / 2}, {"share", total / 10}, {"flops_per_s", std::nan("")},
          {"bytes_per_s", 1e9}};
}

Row scope(std::int64_t rank, const std::string& path, bool operation, double share) {
  return {{"rank", rank},      {"scope", path},  {"operation", std::int64_t{operation ? 1 : 0}},
          {"calls", 1.0},      {"total", share}, {"share", share},
          {"flops", 0.0},      {"bytes", 1.0},   {"flops_per_s", std::nan("")},
          {"bytes_per_s", 1.0}};
}

Table table_of(const std::string& path, const std::vector<Row>& rows) {
  TableRows table(path);
  for (const Row& row : rows) table.add(row);
  return table.take();
}

std::vector<std::string> texts(const Table& table, std::string_view column) {
  return std::get<std::vector<std::string>>(find_column(table.columns, column)->data);
}

TEST(ProfileViewTest, ShowsTwelveKernelsOfRank0) {
  std::vector<Row> rows = {kernel(0, "first", 9)};
  for (int i = 0; i < 20; ++i) rows.push_back(kernel(0, "small", 0.01));
  rows.push_back(kernel(1, "of rank 1", 5));
  CaseRecord record;
  record.tables = {table_of("kernels", rows)};
  const std::vector<Table> shown = largest_parts(record.tables);
  ASSERT_EQ(shown.size(), 1U);
  const std::vector<std::string> kernels = texts(shown[0], "kernel");
  ASSERT_EQ(kernels.size(), 12U);
  EXPECT_EQ(kernels[0], "first");
  EXPECT_EQ(kernels[11], "small");
  EXPECT_EQ(find_column(shown[0].columns, "total")->unit, "s");
  EXPECT_EQ(find_column(shown[0].columns, "memory")->unit, "bytes/s");
  EXPECT_EQ(find_column(shown[0].columns, "of_gemm"), nullptr) << "no ceiling was measured";
}

TEST(ProfileViewTest, ShowsLargeRegionsAsATree) {
  CaseRecord record;
  record.tables = {table_of(
      "kernels/scopes", {scope(0, "forward", false, 0.5), scope(0, "forward/blocks", false, 0.4),
                         scope(0, "forward/blocks/matmul", true, 0.3),
                         scope(0, "forward/head", false, 0.009), scope(1, "forward", false, 0.5)})};
  const std::vector<Table> shown = largest_parts(record.tables);
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(texts(shown[0], "scope"), (std::vector<std::string>{"forward", "  blocks"}));
}

TEST(ProfileViewTest, ShowsNoEmptyTableAndNothingOfARecordWithoutProfile) {
  CaseRecord record;
  EXPECT_TRUE(largest_parts(record.tables).empty());
  record.tables = {table_of("kernels/scopes", {scope(0, "all_reduce", true, 1)})};
  EXPECT_TRUE(largest_parts(record.tables).empty());
}

TEST(ProfileViewTest, TellsOfEventsAndOfLostRecords) {
  const auto rank = [](std::int64_t number, std::int64_t lost, const std::string& reason) -> Row {
    return {{"rank", number}, {"lost", lost}, {"source", "events"}, {"reason", reason}};
  };
  CaseRecord record;
  EXPECT_EQ(profile_remark(record.tables), "");
  record.tables = {table_of("trace/ranks", {rank(0, 3, ""), rank(1, 0, "another tool has it")})};
  EXPECT_EQ(profile_remark(record.tables),
            "3 records of rank 0 are lost; rank 1 is timed by events (another tool has it), which "
            "do not see into graphs");
}

TEST(ProfileViewTest, AnswersComeFromTheRowsThatHaveTheFigures) {
  const Row plain = {{"case", "a"},           {"profile_source", std::string()},
                     {"forward_host_s", 1.0}, {"forward_events_s", std::nan("")},
                     {"softmax_s", 1.0},      {"attention_products_s", 1.0}};
  const Row profiled = {{"case", "b"},
                        {"profile_source", "cupti"},
                        {"forward_host_s", 3.0},
                        {"forward_events_s", 2.5},
                        {"forward_kernels_s", 2.0},
                        {"softmax_s", 1.0},
                        {"attention_products_s", 4.0},
                        {"softmax_flops", 10.0},
                        {"attention_products_flops", 100.0}};
  const std::vector<Table> answers = profile_answers({plain, profiled});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].path, "profile/forward");
  EXPECT_EQ(texts(answers[0], "case"), std::vector<std::string>{"b"});
  EXPECT_EQ(answers[1].path, "profile/softmax");
  const Row row = row_of(answers[1].columns, 0);
  EXPECT_EQ(value_in<double>(row, "time_ratio"), 0.25);
  EXPECT_EQ(value_in<double>(row, "flops_ratio"), 0.1);
}

}  // namespace
}  // namespace paceline
