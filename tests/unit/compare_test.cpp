#include "record/compare.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "record/case_file.h"
#include "record/result_file.h"
#include "records.h"
#include "temp_folder.h"

namespace paceline {
namespace {

// 20 repetitions with median `center` and an interval of about +-0.5%.
std::vector<double> around(double center) {
  std::vector<double> seconds;
  for (int i = 0; i < 20; ++i) seconds.push_back(center * (1 + 0.001 * (i - 9.5)));
  return seconds;
}
// 20 repetitions with median `center` and an interval of about +-10%.
std::vector<double> widely_around(double center) {
  std::vector<double> seconds;
  for (int i = 0; i < 20; ++i) seconds.push_back(center * (1 + 0.02 * (i - 9.5)));
  return seconds;
}

class CompareTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::vector<CaseRecord>& records,
             const RunInfo& run = make_run()) const {
    ResultFile file(path(name), ResultFile::Existing::replace);
    std::vector<std::string> ids;
    for (const CaseRecord& record : records) {
      file.write(record, run);
      ids.push_back(record.id);
    }
    file.merge(ids, true);
  }
  [[nodiscard]] Comparison compare(bool any_machine = false) const {
    return compare_files(path("A"), path("B"), any_machine);
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
  return comparison.table.find(text) != std::string::npos;
}

TEST_F(CompareTest, ShowsATable) {
  write("A", {make_record(128, around(0.01)), make_record(256, around(0.5)), make_record(1, {1})});
  write("B", {make_record(128, around(0.02)), make_record(256, around(0.25)), make_record(2, {1})});
  const Comparison comparison = compare();
  EXPECT_TRUE(comparison.regression);
  EXPECT_EQ(comparison.table,
            "A = " + path("A").string() + "\nB = " + path("B").string() +
                // clang-format off
                "\nsize small\n"
                "context  verdict   change  A [ms]    95% interval  B [ms]    95% interval\n"
                "    128  slower   +100.0%   10.00  9.955 .. 10.06   20.00  19.91 .. 20.11\n"
                "    256  faster    -50.0%   500.0  497.8 .. 502.8   250.0  248.9 .. 251.4\n"
                "only in A: context 1, size small\n"
                "only in B: context 2, size small\n"
                "1 faster, 1 slower\n");
  // clang-format on
}

TEST_F(CompareTest, SlowerIsARegression) {
  const auto c = compare(make_record(128, around(1)), make_record(128, around(1.02)));
  EXPECT_TRUE(says(c, "1 slower\n")) << c.table;
  EXPECT_TRUE(c.regression);
}

TEST_F(CompareTest, FasterIsNone) {
  const auto c = compare(make_record(128, around(1.02)), make_record(128, around(1)));
  EXPECT_TRUE(says(c, "1 faster\n")) << c.table;
  EXPECT_FALSE(c.regression);
}

TEST_F(CompareTest, OverlappingIntervalsAreSameWithinTwoPercent) {
  const auto same =
      compare(make_record(128, widely_around(1)), make_record(128, widely_around(1.019)));
  EXPECT_TRUE(says(same, "1 same\n")) << same.table;
  EXPECT_FALSE(same.regression);
  const auto open =
      compare(make_record(128, widely_around(1)), make_record(128, widely_around(1.03)));
  EXPECT_TRUE(says(open, "1 undecided\n")) << open.table;
  EXPECT_FALSE(open.regression);
  // A median outside of the other's interval is not enough.
  for (const double center : {0.95, 1.05}) {
    const auto c = compare(make_record(128, widely_around(1)), make_record(128, around(center)));
    EXPECT_TRUE(says(c, "1 undecided\n")) << c.table;
  }
}

TEST_F(CompareTest, IntervalsThatTouchDecideNothing) {
  // Half of the repetitions take one time, half the other: these are the interval's ends.
  const auto half_and_half = [](double low, double high) {
    std::vector<double> seconds(10, low);
    seconds.insert(seconds.end(), 10, high);
    return make_record(128, seconds);
  };
  const CaseRecord fast = half_and_half(1, 2);
  const CaseRecord slow = half_and_half(2, 3);
  for (const auto& c : {compare(fast, slow), compare(slow, fast)}) {
    EXPECT_TRUE(says(c, "1 undecided\n")) << c.table;
    EXPECT_FALSE(c.regression);
  }
  EXPECT_TRUE(says(compare(fast, half_and_half(2.001, 3)), "1 slower\n"));
  EXPECT_TRUE(says(compare(half_and_half(2.001, 3), fast), "1 faster\n"));
}

TEST_F(CompareTest, WithoutAnIntervalNothingIsDecided) {
  const auto c = compare(make_record(128, {1, 1, 1, 1, 1}), make_record(128, around(9)));
  EXPECT_TRUE(says(c, "1 undecided\n")) << c.table;
  EXPECT_TRUE(says(c, "+800.0%")) << c.table;
  EXPECT_FALSE(c.regression);
}

TEST_F(CompareTest, NoLongerOkIsARegression) {
  const auto c = compare(make_record(128, around(1)), make_oom(128));
  EXPECT_TRUE(says(c, "no longer ok  A: ok; B: oom, 2 GB asked for\n")) << c.table;
  EXPECT_TRUE(c.regression);
}

TEST_F(CompareTest, OkNowAndStillNotOkAreNone) {
  const auto now = compare(make_oom(128), make_record(128, around(1)));
  EXPECT_TRUE(says(now, "1 ok now\n")) << now.table;
  EXPECT_FALSE(now.regression);
  const auto still = compare(make_oom(128), make_oom(128));
  EXPECT_TRUE(says(still, "1 not ok\n")) << still.table;
  EXPECT_FALSE(still.regression);
}

TEST_F(CompareTest, TheHeadlineDecides) {
  CaseRecord a = make_record(128, {});
  a.samples = {{"forward", {}, {around(1)}}, {"step", {}, {around(2)}}};
  CaseRecord b = a;
  b.samples[0].measured = {around(9)};
  EXPECT_TRUE(says(compare(a, b), "1 same\n"));
}

TEST_F(CompareTest, HowOftenWasMeasuredIsNoFactor) {
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
  EXPECT_TRUE(says(c, "2 same\n")) << c.table;
  EXPECT_TRUE(says(c, "only in B: ")) << c.table;
}

TEST_F(CompareTest, OtherMachinesAreRefusedUnlessAskedFor) {
  const CaseRecord record = make_record(128, around(1));
  write("A", {record});
  write("B", {record}, make_run(1, "Other CPU"));
  EXPECT_EQ(message_of(),
            "devices differ: Some CPU in A, Other CPU in B; --any-machine compares them all the "
            "same");
  EXPECT_TRUE(says(compare(true), "1 same\n"));

  write("B", {record}, make_run(2));
  EXPECT_EQ(message_of(),
            "rank counts differ: 1 in A, 2 in B; --any-machine compares them all the same");
  EXPECT_TRUE(says(compare(true), "1 same\n"));

  RunInfo other_host = make_run();
  other_host.ranks[0].cpu = "Other CPU";
  write("B", {record}, other_host);
  EXPECT_EQ(message_of(),
            "the hosts' CPUs differ: Some CPU in A, Other CPU in B; --any-machine compares them "
            "all the same");
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
  EXPECT_EQ(message_of(true), "A holds results of 'model', B of 'ddp': nothing to compare");
}

TEST_F(CompareTest, FilesThatCannotBeReadAreRefused) {
  write("A", {make_record(128, around(1))});
  EXPECT_NE(message_of().find("cannot read " + path("B").string()), std::string::npos);
}

// Version 1 recorded factors that did not apply to a case, and bf16x3 as near.
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
    EXPECT_FALSE(says(compare(), "only in")) << compare().table;
  }
}

}  // namespace
}  // namespace paceline
