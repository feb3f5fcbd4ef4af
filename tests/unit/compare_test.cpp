#include "record/compare.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "record/case_file.h"
#include "record/comparison_text.h"
#include "record/result_file.h"
#include "records.h"
#include "temp_folder.h"

namespace paceline {
namespace {

// 10 repetitions with median `center`; the largest is 1.002 times the smallest.
std::vector<double> around(double center) {
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) seconds.push_back(center * (1 + 0.002 / 9 * (i - 4.5)));
  return seconds;
}
// 10 repetitions with median `center`; the largest is 1.2 times the smallest.
std::vector<double> widely_around(double center) {
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) seconds.push_back(center * (1 + 0.2 / 1.1 / 9 * (i - 4.5)));
  return seconds;
}

class CompareTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::vector<CaseRecord>& records,
             const RunInfo& run = make_run()) const {
    ResultFile file(path(name), ResultFile::Existing::replace, "model");
    std::vector<std::string> ids;
    for (const CaseRecord& record : records) {
      file.write(record, run);
      ids.push_back(record.id);
    }
    file.merge(ids, true);
  }
  [[nodiscard]] Comparison compare(bool any_machine = false) const {
    return compare_files({.files = {path("A"), path("B")}, .any_machine = any_machine});
  }
  // The comparison of one case in A with one in B.
  [[nodiscard]] Comparison compare(const CaseRecord& a, const CaseRecord& b) const {
    write("A", {a});
    write("B", {b});
    return compare();
  }
  [[nodiscard]] std::string message_of(bool any_machine = false) const {
    try {
      (void)compare(any_machine);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "(no UsageError)";
  }
  [[nodiscard]] std::filesystem::path path(const std::string& name) const {
    return temp_.path() / (name + ".h5");
  }

 private:
  TempFolder temp_;
};

bool says(const Comparison& comparison, const std::string& text) {
  return comparison_table(comparison).find(text) != std::string::npos;
}

TEST_F(CompareTest, ShowsATable) {
  write("A", {make_record(128, around(0.01)), make_record(256, around(0.5)), make_record(1, {1})});
  write("B", {make_record(128, around(0.02)), make_record(256, around(0.25)), make_record(2, {1})});
  const Comparison comparison = compare();
  EXPECT_TRUE(comparison.regression());
  EXPECT_EQ(comparison_table(comparison),
            "A = " + path("A").string() + "\nB = " + path("B").string() + R"(
size small
context  verdict  A [ms]  B [ms]   B / A          interval  pairs  repetitions
    128  slower    10.00   20.00   2.000    1.984 .. 2.016      1       10, 10
    256  faster    500.0   250.0  0.5000  0.4960 .. 0.5040      1       10, 10
only in A: context 1
only in B: context 2
A, B: medians over repetitions of the slowest rank; B / A: with the interval on which the verdict
is based (docs/measuring.md)
1 faster, 1 slower
)");
}

TEST_F(CompareTest, SlowerIsARegression) {
  const auto c = compare(make_record(128, around(1)), make_record(128, around(1.04)));
  EXPECT_TRUE(says(c, "1 slower\n")) << comparison_table(c);
  EXPECT_TRUE(c.regression());
}

TEST_F(CompareTest, FasterIsNoRegression) {
  const auto c = compare(make_record(128, around(1.04)), make_record(128, around(1)));
  EXPECT_TRUE(says(c, "1 faster\n")) << comparison_table(c);
  EXPECT_FALSE(c.regression());
}

TEST_F(CompareTest, WithinTheThresholdIsSame) {
  const auto same = compare(make_record(128, around(1)), make_record(128, around(1.01)));
  EXPECT_TRUE(says(same, "1 same\n")) << comparison_table(same);
  EXPECT_FALSE(same.regression());
}

TEST_F(CompareTest, RunsOfAWideSpreadAreUndecided) {
  for (const double center : {0.5, 0.9, 1.01, 1.1, 2.0}) {
    const auto c =
        compare(make_record(128, widely_around(1)), make_record(128, widely_around(center)));
    EXPECT_TRUE(says(c, "1 undecided\n")) << comparison_table(c);
    EXPECT_TRUE(says(c, "from 10 pairs on")) << comparison_table(c);
    EXPECT_FALSE(c.regression());
  }
}

TEST_F(CompareTest, TheThresholdIsAnOption) {
  write("A", {make_record(128, around(1))});
  write("B", {make_record(128, around(1.04))});
  const auto verdict = [&](double threshold) {
    return compare_files({.files = {path("A"), path("B")}, .threshold = threshold})
        .cases.front()
        .verdict;
  };
  EXPECT_EQ(verdict(0), "slower");
  EXPECT_EQ(verdict(0.04), "undecided");
  EXPECT_EQ(verdict(0.1), "same");
}

TEST_F(CompareTest, WithoutAnIntervalTheVerdictIsUndecided) {
  const auto c = compare(make_record(128, {1, 1, 1, 1, 1}), make_record(128, around(9)));
  EXPECT_TRUE(says(c, "1 undecided\n")) << comparison_table(c);
  EXPECT_TRUE(says(c, "undecided without an interval")) << comparison_table(c);
  EXPECT_FALSE(says(c, "from 10 pairs on")) << comparison_table(c);
  EXPECT_TRUE(says(c, "1.000  9.000  9.000         -")) << comparison_table(c);
  EXPECT_FALSE(c.regression());
}

TEST_F(CompareTest, NoLongerOkIsARegression) {
  const auto c = compare(make_record(128, around(1)), make_oom(128));
  EXPECT_TRUE(says(c, "no longer ok  A: ok; B: oom, 2 GB asked for\n")) << comparison_table(c);
  EXPECT_TRUE(c.regression());
}

TEST_F(CompareTest, OkNowOrStillNotOkIsNoRegression) {
  const auto now = compare(make_oom(128), make_record(128, around(1)));
  EXPECT_TRUE(says(now, "1 ok now\n")) << comparison_table(now);
  EXPECT_FALSE(now.regression());
  const auto still = compare(make_oom(128), make_oom(128));
  EXPECT_TRUE(says(still, "1 not ok\n")) << comparison_table(still);
  EXPECT_FALSE(still.regression());
}

TEST_F(CompareTest, TheHeadlineDecides) {
  CaseRecord a = make_record(128, {});
  a.samples = {{"forward", {}, {around(1)}}, {"step", {}, {around(2)}}};
  CaseRecord b = a;
  b.samples[0].measured = {around(9)};
  EXPECT_TRUE(says(compare(a, b), "1 same\n"));
}

TEST_F(CompareTest, SeedStepsAndWarmupDoNotDistinguishCases) {
  CaseRecord a = make_record(128, around(1));
  a.factors.set("seed", std::int64_t{1});
  a.factors.set("steps", std::int64_t{10});
  CaseRecord b = make_record(128, around(1));
  b.factors.set("seed", std::int64_t{2});
  b.factors.set("warmup", std::int64_t{7});
  EXPECT_TRUE(says(compare(a, b), "1 same\n"));
  b.factors.set("lr", 0.5);
  write("B", {b});
  EXPECT_EQ(message_of(), "no case of " + path("B").string() + " has the factors of one in " +
                              path("A").string());
}

// Factors that do not distinguish cases do so if cases of a file differ in nothing else.
TEST_F(CompareTest, CasesOfASweepOverWarmupOrRanksAreMatchedByIt) {
  for (const char* factor : {"warmup", "ranks", "memory_timeline"}) {
    const auto with = [&](std::int64_t value, double center) {
      CaseRecord record = make_record(128, around(center));
      record.factors.set(factor, value);
      record.id = record.factors.id({factor});
      return record;
    };
    write("A", {with(1, 1), with(2, 5)});
    write("B", {with(2, 5), with(1, 1)});
    EXPECT_TRUE(says(compare(true), "2 same\n")) << factor;
    write("B", {with(2, 5)});
    const Comparison c = compare(true);
    EXPECT_TRUE(says(c, "1 same\n")) << comparison_table(c);
    EXPECT_TRUE(says(c, "only in A: ")) << factor;
    EXPECT_TRUE(says(c, factor + std::string(" 1"))) << comparison_table(c);
  }
}

TEST_F(CompareTest, StepsThatVaryWithTheContextDoNotDistinguishCases) {
  const auto with = [&](std::int64_t context, std::int64_t steps) {
    CaseRecord record = make_record(context, around(1));
    record.factors.set("steps", steps);
    return record;
  };
  write("A", {with(128, 10), with(256, 5)});
  write("B", {with(128, 7), with(256, 7)});
  EXPECT_TRUE(says(compare(), "2 same\n"));
}

TEST_F(CompareTest, RepeatedCasesAreMatchedInOrder) {
  const auto seeded = [](std::int64_t seed, double center) {
    CaseRecord record = make_record(128, around(center));
    record.factors.set("seed", seed);
    record.id = record.factors.id({"seed"});
    return record;
  };
  write("A", {seeded(1, 1), seeded(2, 2)});
  write("B", {seeded(3, 1), seeded(4, 2), seeded(5, 3)});
  const Comparison c = compare();
  EXPECT_TRUE(says(c, "2 same\n")) << comparison_table(c);
  EXPECT_TRUE(says(c, "only in B: ")) << comparison_table(c);
}

TEST_F(CompareTest, OtherMachinesAreRefusedWithoutAnyMachine) {
  const CaseRecord record = make_record(128, around(1));
  write("A", {record});
  write("B", {record}, make_run(1, "Other CPU"));
  EXPECT_EQ(message_of(), "devices differ: Some CPU in " + path("A").string() + ", Other CPU in " +
                              path("B").string() + "; --any-machine compares them anyway");
  EXPECT_TRUE(says(compare(true), "1 same\n"));

  write("B", {record}, make_run(2));
  EXPECT_EQ(message_of(), "rank counts differ: 1 in " + path("A").string() + ", 2 in " +
                              path("B").string() + "; --any-machine compares them anyway");
  EXPECT_TRUE(says(compare(true), "1 same\n"));

  RunInfo other_host = make_run();
  other_host.ranks[0].cpu = "Other CPU";
  write("B", {record}, other_host);
  EXPECT_EQ(message_of(), "the hosts' CPUs differ: Some CPU in " + path("A").string() +
                              ", Other CPU in " + path("B").string() +
                              "; --any-machine compares them anyway");
}

TEST_F(CompareTest, OnAnyMachineThreadsAndDeviceAreNoFactors) {
  CaseRecord a = make_record(128, around(1));
  a.factors.set("threads", std::int64_t{2});
  a.factors.set("device", std::string("cpu"));
  CaseRecord b = make_record(128, around(1));
  b.factors.set("threads", std::int64_t{64});
  b.factors.set("device", std::string("cuda"));
  write("A", {a});
  write("B", {b});
  EXPECT_NE(message_of().find("no case of"), std::string::npos);
  EXPECT_TRUE(says(compare(true), "1 same\n"));
}

TEST_F(CompareTest, OtherExperimentsAreRefused) {
  const CaseRecord record = make_record(128, around(1));
  RunInfo run = make_run();
  run.experiment = "ddp";
  write("A", {record});
  write("B", {record}, run);
  EXPECT_EQ(message_of(true), path("A").string() + " holds results of 'model', " +
                                  path("B").string() + " of 'ddp': nothing to compare");
}

TEST_F(CompareTest, FilesThatCannotBeReadAreRefused) {
  write("A", {make_record(128, around(1))});
  EXPECT_NE(message_of().find("cannot read " + path("B").string()), std::string::npos);
}

class PairedFiles : public CompareTest {
 protected:
  // Files A1 B1 A2 B2 ... with these medians; each run has a spread of 1.2.
  [[nodiscard]] CompareOptions files(const std::vector<std::pair<double, double>>& medians) const {
    CompareOptions options;
    for (const auto& [a, b] : medians) {
      for (const auto& [side, median] : {std::pair("A", a), std::pair("B", b)}) {
        const std::string name = side + std::to_string(options.files.size() / 2 + 1);
        write(name, {make_record(128, widely_around(median))});
        options.files.push_back(path(name));
      }
    }
    return options;
  }
};

TEST_F(PairedFiles, TenPairsWithBSlowerInEachAreSlower) {
  std::vector<std::pair<double, double>> medians;
  for (const double level : {1.0, 3.0, 2.0, 5.0, 1.5, 4.0, 1.2, 6.0, 2.5}) {
    medians.emplace_back(level, 1.05 * level);
  }
  const Comparison nine = compare_files(files(medians));
  EXPECT_TRUE(says(nine, "1 undecided\n")) << comparison_table(nine);
  EXPECT_TRUE(says(nine, "from 10 pairs on")) << comparison_table(nine);
  medians.emplace_back(7, 7 * 1.03);
  const Comparison ten = compare_files(files(medians));
  EXPECT_TRUE(says(ten, "1 slower\n")) << comparison_table(ten);
  EXPECT_TRUE(says(ten, "1.050  1.030 .. 1.050     10     100, 100")) << comparison_table(ten);
  EXPECT_TRUE(says(ten, path("B1").string() + ", " + path("B2").string()));
  EXPECT_FALSE(says(ten, "from 10 pairs on"));
}

TEST_F(PairedFiles, AreJudgedByThePairsThatHaveTheCase) {
  const CompareOptions options = files({{1, 2}, {1, 2}, {1, 2}});
  write("A2", {make_record(256, around(1)), make_oom(128)});
  write("B3", {make_record(256, around(1))});
  const Comparison c = compare_files(options);
  ASSERT_EQ(c.cases.size(), 1U);
  EXPECT_EQ(c.cases.front().pairs, 1U);
  EXPECT_EQ(c.cases.front().a.repetitions, 10U);
  EXPECT_TRUE(says(c, "in no pair: context 256\n")) << comparison_table(c);
}

TEST_F(PairedFiles, ACaseThatOneRunOfBLostIsARegression) {
  const CompareOptions options = files({{1, 1}, {1, 1}});
  write("B2", {make_oom(128)});
  const Comparison c = compare_files(options);
  EXPECT_TRUE(c.regression());
  EXPECT_TRUE(says(c, "no longer ok  A: ok; B: oom, 2 GB asked for")) << comparison_table(c);
}

TEST_F(PairedFiles, OddCountsAndRepeatedFilesAreRefused) {
  CompareOptions options = files({{1, 1}, {1, 1}});
  options.files.pop_back();
  const auto message = [&] {
    try {
      (void)compare_files(options);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(),
            "files: needs 2, A.h5 B.h5, or more in pairs, A1.h5 B1.h5 A2.h5 B2.h5; 3 given");
  options.files.push_back(path("A1"));
  EXPECT_EQ(message(),
            path("A1").string() + " is given twice: each pair needs two files of different runs");
}

TEST_F(CompareTest, JsonHasALinePerCase) {
  write("A", {make_record(128, around(1)), make_record(256, {1, 1}), make_record(1, {1})});
  write("B", {make_record(128, around(2)), make_oom(256), make_record(2, {1})});
  std::istringstream lines(comparison_json(compare()));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["context"], 128);
  EXPECT_EQ(rows[0]["verdict"], "slower");
  EXPECT_DOUBLE_EQ(rows[0]["a_median_s"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(rows[0]["b_median_s"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(rows[0]["ratio"].get<double>(), 2);
  EXPECT_LT(rows[0]["ratio_low"], 2);
  EXPECT_GT(rows[0]["ratio_high"], 2);
  EXPECT_EQ(rows[0]["pairs"], 1);
  EXPECT_EQ(rows[0]["a_repetitions"], 10);
  EXPECT_EQ(rows[1]["verdict"], "no longer ok");
  EXPECT_EQ(rows[1]["b_reason"], "2 GB asked for");
  EXPECT_TRUE(rows[1]["ratio"].is_null());
  EXPECT_EQ(rows[2]["verdict"], "only in A");
  EXPECT_EQ(rows[2]["context"], 1);
  EXPECT_EQ(rows[3]["verdict"], "only in B");
}

// If the summary does not follow from the samples, the file was changed or not written by paceline.
TEST_F(CompareTest, ASummaryThatContradictsTheSamplesIsRefused) {
  const auto write_with_summary_of = [&](const CaseRecord& summarized) {
    const CaseRecord record = make_record(128, around(1));
    const hdf5::File file = case_file(summarized, make_run());
    H5Ldelete(file.id(), ("cases/" + record.id).c_str(), H5P_DEFAULT);
    file.group("cases").copy_from(case_file(record, make_run()).group("cases"), record.id);
    std::ofstream(path("B"), std::ios::binary) << file.image();
  };
  write("A", {make_record(128, around(1))});
  write_with_summary_of(make_record(128, around(1)));
  EXPECT_TRUE(says(compare(), "1 same\n"));

  // The same median and interval, but another maximum.
  std::vector<double> seconds = around(1);
  seconds.back() += 0.5;
  write_with_summary_of(make_record(128, seconds));
  EXPECT_NE(message_of().find(path("B").string() + ": case "), std::string::npos) << message_of();
  EXPECT_NE(message_of().find(" in the summary and "), std::string::npos) << message_of();

  // The summary row of another case.
  write_with_summary_of(make_record(256, around(1)));
  EXPECT_NE(message_of().find("the summary names other cases"), std::string::npos) << message_of();
}

TEST_F(CompareTest, TheSlowestRankOfEachRepetitionCounts) {
  CaseRecord a = make_record(128, {});
  a.samples = {{"step", {}, {around(1), around(3)}}};
  CaseRecord b = a;
  b.samples = {{"step", {}, {around(3), around(2)}}};
  const Comparison c = compare(a, b);
  EXPECT_TRUE(says(c, "1 same\n")) << comparison_table(c);
  EXPECT_DOUBLE_EQ(c.cases.front().a.median, 3);
}

// Version 1 recorded factors that did not apply to a case, and spelled bf16x3 as near.
TEST_F(CompareTest, MatchesCasesOfVersion1) {
  using Factors = std::vector<std::pair<const char*, const char*>>;
  const std::vector<std::pair<Factors, Factors>> old_and_new = {
      {{{"sync", "none"}, {"comm_dtype", "none"}, {"registration", "none"}, {"verify", "0"}},
       {{"sync", "none"}}},
      {{{"sync", "flat"}, {"bucket_mb", "0"}, {"comm_dtype", "fp32"}},
       {{"sync", "flat"}, {"comm_dtype", "fp32"}}},
      {{{"sync", "bucketed"}, {"bucket_mb", "25"}}, {{"sync", "bucketed"}, {"bucket_mb", "25"}}},
      {{{"shard", "zero1"}, {"bucket_mb", "25"}, {"comm_dtype", "fp32"}},
       {{"shard", "zero1"}, {"bucket_mb", "25"}, {"comm_dtype", "fp32"}}},
      {{{"mode", "inference"}, {"recompute", "none"}}, {{"mode", "inference"}}},
      {{{"op", "broadcast"}, {"redop", "none"}, {"in_place", "yes"}}, {{"op", "broadcast"}}},
      {{{"op", "all_reduce"}, {"redop", "sum"}, {"in_place", "yes"}},
       {{"op", "all_reduce"}, {"redop", "sum"}, {"in_place", "yes"}}},
      {{{"precision", "fp32"}, {"fp32_attention", "near"}},
       {{"precision", "fp32"}, {"fp32_attention", "bf16x3"}}},
      {{{"precision", "tf32"}, {"fp32_attention", "tf32"}}, {{"precision", "tf32"}}}};
  for (const auto& [of_version_1, of_version_2] : old_and_new) {
    const auto record_of = [](const Factors& factors) {
      CaseRecord record = make_record(128, around(0.5));
      for (const auto& [name, value] : factors) record.factors.set(name, std::string(value));
      return record;
    };
    const hdf5::File a = case_file(record_of(of_version_1), make_run());
    a.set_attribute("schema_version", std::int64_t{1});
    std::ofstream(path("A"), std::ios::binary) << a.image();
    write("B", {record_of(of_version_2)});
    EXPECT_TRUE(says(compare(), "same  ")) << of_version_1.front().second;
    EXPECT_FALSE(says(compare(), "only in")) << comparison_table(compare());
  }
}

}  // namespace
}  // namespace paceline
