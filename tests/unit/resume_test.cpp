// Resuming an existing result file, and the merge after a crash.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "record/whole_file.h"
#include "result_files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Existing = ResultFile::Existing;

class ResumeTest : public ResultFiles {};

TEST_F(ResumeTest, SplitsAndMergesWithoutLoss) {
  const CaseRecord a = rich_record();
  const CaseRecord b = make_oom(256);
  make_file({a, b}, false);
  const std::string created =
      open_result_file(path()).group("cases/" + a.id).text_attribute("created");
  {
    ResultFile results(path(), Existing::resume, "model");
    EXPECT_TRUE(fs::exists(path()));  // kept until the merge replaces it
    EXPECT_TRUE(results.has(a.id, a.factors));
    EXPECT_FALSE(results.has(b.id, b.factors));  // oom cases are measured again
    const CaseRecord c = make_record(512, {3, 4});
    EXPECT_FALSE(results.has(c.id, c.factors));
    results.write(c, make_run());
    results.merge({a.id, b.id, c.id}, true);
  }
  const hdf5::File file = open_result_file(path());
  EXPECT_EQ(file.group("cases").names().size(), 3U);
  const hdf5::Group of_a = file.group("cases/" + a.id);
  EXPECT_EQ(of_a.text_attribute("created"), created);
  EXPECT_EQ(of_a.dataset("samples/forward").read<double>(),
            (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(of_a.dataset("memory/blocks/scope").read<std::string>(),
            (std::vector<std::string>{"a", "b"}));
  const auto summary = read_summary(path());
  EXPECT_EQ(values<std::int64_t>(summary, "context"), (std::vector<std::int64_t>{128, 256, 512}));
  EXPECT_EQ(values<double>(summary, "tokens_per_s").at(0), 10.5);
  EXPECT_TRUE(std::isnan(values<double>(summary, "tokens_per_s").at(1)));
  EXPECT_EQ(values<double>(summary, "step_median_s").at(2), 3.5);
  EXPECT_EQ(find_column(summary, "tokens_per_s")->unit, "1/s");
  EXPECT_FALSE(fs::exists(folder()));
}

// The run that measured a case, as recorded in the file.
struct RunOfCase {
  std::string command;
  std::string nccl_debug;
  std::vector<std::string> hosts;

  [[nodiscard]] bool operator==(const RunOfCase&) const = default;
};
RunOfCase run_of(const hdf5::File& file, const std::string& id) {
  const std::string name = file.group("cases/" + id).text_attribute("run");
  const hdf5::Group run = file.group("runs/" + name);
  return {run.text_attribute("command"), run.group("environment").text_attribute("NCCL_DEBUG"),
          run.dataset("ranks/host").read<std::string>()};
}

TEST_F(ResumeTest, EveryCaseKeepsTheRunThatMeasuredIt) {
  const CaseRecord a = make_record(1, {1});
  const CaseRecord b = make_record(2, {1});
  make_file({a});
  const RunOfCase first{"paceline model --size small", "INFO", {"node1"}};
  RunInfo later = make_run(2);
  later.command = "paceline model --resume";
  later.environment.back().second = "WARN";
  later.started = "2026-11-25T00:00:00.000Z";
  for (RankInfo& rank : later.ranks) rank.host = "node2";
  for (const bool measures : {true, false}) {  // the second resume has no case to measure
    ResultFile results(path(), Existing::resume, "model");
    if (measures) results.write(b, later);
    results.merge({b.id, a.id}, true);
    const hdf5::File file = open_result_file(path());
    EXPECT_EQ(file.group("runs").names().size(), 2U);
    EXPECT_EQ(run_of(file, a.id), first);
    EXPECT_EQ(run_of(file, b.id),
              (RunOfCase{"paceline model --resume", "WARN", {"node2", "node2"}}));
    EXPECT_EQ(values<std::string>(read_summary(path()), "run"),
              (std::vector<std::string>{"20261125T000000.000Z", "20261124T150639.123Z"}));
    EXPECT_EQ(file.text_attribute("command"), "paceline model --resume");
    EXPECT_EQ(file.dataset("ranks/host").read<std::string>().size(), 2U);
    EXPECT_EQ(file.group("environment").text_attribute("NCCL_DEBUG"), "WARN");
  }
}

// A file of the first form of schema version 2, without /runs.
TEST_F(ResumeTest, AFileWithoutRunsGetsOne) {
  const CaseRecord old = make_record(1, {1});
  {
    const hdf5::File file = hdf5::File::create(path());
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"schema", "paceline"},
                                                          {"software_version", "abc"},
                                                          {"created", "2026-11-21T02:05:31Z"},
                                                          {"command", "old"},
                                                          {"experiment", "model"}}) {
      file.set_attribute(name, value);
    }
    file.set_attribute("schema_version", std::int64_t{2});
    file.make_group("environment").set_attribute("NCCL_DEBUG", std::string("TRACE"));
    file.make_group("ranks").write("host", std::vector<std::string>{"node0"});
    const hdf5::Group c = file.make_group("cases/" + old.id);
    for (const auto& [name, value] : old.factors.factors()) c.set_attribute(name, value);
    c.set_attribute("status", std::string("ok"));
    const hdf5::Group summary = file.make_group("summary");
    summary.write("case", std::vector<std::string>{old.id});
    summary.write("peak_bytes", std::vector<double>{5});
  }
  const CaseRecord added = make_record(2, {1});
  {
    ResultFile results(path(), Existing::resume, "model");
    EXPECT_TRUE(results.has(old.id, old.factors));
    results.write(added, make_run());
    results.merge({old.id, added.id}, true);
  }
  const hdf5::File file = open_result_file(path());
  EXPECT_EQ(run_of(file, old.id), (RunOfCase{"old", "TRACE", {"node0"}}));
  EXPECT_EQ(file.text_attribute("command"), "paceline model --size small");
  EXPECT_EQ(values<std::string>(read_summary(path()), "run"),
            (std::vector<std::string>{"20261121T020531Z", "20261124T150639.123Z"}));
  EXPECT_NE(file.dataset("summary/peak_bytes").text_attribute("description"), "");
}

TEST_F(ResumeTest, TheNewestRunIsTheLastAlsoIfTheClockWasSetBack) {
  std::vector<CaseRecord> records;
  std::vector<std::string> ids;
  for (const char* command : {"first", "second", "third"}) {
    ResultFile results(path(), Existing::resume, "model");
    RunInfo run = make_run();
    run.command = command;
    run.previous = results.newest_run();
    run.started = fmt::format("2026-11-24T1{}:00:00.000Z", 9 - records.size());
    records.push_back(make_record(static_cast<std::int64_t>(records.size()), {1}));
    results.write(records.back(), run);
    ids.push_back(run.id());
    results.merge({}, true);
    EXPECT_EQ(open_result_file(path()).text_attribute("command"), command);
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"20261124T190000.000Z", "20261124T190000.000Z+",
                                           "20261124T190000.000Z++"}));
}

TEST_F(ResumeTest, MatchesByEveryFactor) {
  const CaseRecord record = rich_record();
  make_file({record});
  const ResultFile results(path(), Existing::resume, "model");
  EXPECT_TRUE(results.has(record.id, record.factors));
  Case reordered;  // the order of factors does not matter
  reordered.set("deterministic", true);
  reordered.set("lr", 0.001);
  reordered.set("context", std::int64_t{128});
  reordered.set("size", std::string("small"));
  EXPECT_TRUE(results.has(record.id, reordered));
  Case other = record.factors;
  other.set("lr", 0.002);
  EXPECT_FALSE(results.has(record.id, other));
  other = record.factors;
  other.set("eps", 1e-8);
  EXPECT_FALSE(results.has(record.id, other));
  other = {};
  other.set("size", std::string("small"));
  EXPECT_FALSE(results.has(record.id, other));
  EXPECT_FALSE(results.has("another", record.factors));
}

TEST_F(ResumeTest, KeepsOnlyOkAndSkippedCases) {
  for (const Status status :
       {Status::ok, Status::skipped, Status::oom, Status::diverged, Status::mismatch}) {
    CaseRecord record = make_record(128, {1});
    record.status = status;
    make_file({record});
    const ResultFile results(path(), Existing::resume, "model");
    EXPECT_EQ(results.has(record.id, record.factors),
              status == Status::ok || status == Status::skipped)
        << name_of(status);
  }
}

TEST_F(ResumeTest, MeasuresUnreadableCasesAgain) {
  const CaseRecord record = make_record(128, {1});
  fs::create_directories(folder());
  std::ofstream(folder() / (record.id + ".h5")) << "torn";
  ResultFile results(path(), Existing::resume, "model");
  EXPECT_FALSE(results.has(record.id, record.factors));
  results.write(record, make_run());
  EXPECT_TRUE(results.has(record.id, record.factors));
  results.merge({record.id}, true);
  EXPECT_EQ(contexts().size(), 1U);
}

TEST_F(ResumeTest, RefusesOtherFilesAndNewerSchemas) {
  std::ofstream(path()) << "no results";
  EXPECT_NE(message_of([&] { ResultFile(path(), Existing::resume, "model"); }).find("cannot read"),
            std::string::npos);
  {
    hdf5::File other = hdf5::File::create(path());
    other.close();
  }
  EXPECT_EQ(message_of([&] { ResultFile(path(), Existing::resume, "model"); }),
            path().string() + " is not a paceline result file");
  for (const std::int64_t version : {1, 3}) {
    hdf5::File other = hdf5::File::create(path());
    other.set_attribute("schema", std::string("paceline"));
    other.set_attribute("schema_version", version);
    other.close();
    EXPECT_EQ(message_of([&] { ResultFile(path(), Existing::resume, "model"); }),
              path().string() + " has schema version " + std::to_string(version) +
                  "; this program reads 2 alone, paceline-analysis older ones too");
  }
  EXPECT_TRUE(fs::exists(path()));
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(ResumeTest, NewerCasesWinOverThoseOfTheFile) {
  const CaseRecord old_record = make_record(128, {1});
  make_file({old_record, make_record(256, {1})});
  {
    ResultFile crashed(path(), Existing::resume, "model");
    crashed.write(make_record(128, {7}), make_run());
  }
  (void)merge_after_crash(path());
  EXPECT_EQ(contexts(), (std::vector<std::int64_t>{128, 256}));
  EXPECT_EQ(values<double>(read_summary(path()), "step_median_s"), (std::vector<double>{7, 1}));
}

TEST_F(ResumeTest, MergeAfterACrashKeepsCasesThatWereNotSplitYet) {
  make_file({make_record(128, {1}), make_record(256, {2})});
  // A resuming run was killed after it had split off one case of the file and written a new one.
  const CaseRecord fresh = make_record(512, {3});
  {
    ResultFile crashed(path(), Existing::resume, "model");
    crashed.write(fresh, make_run());
  }
  ASSERT_EQ(case_files(folder()).size(), 3U);
  fs::remove(folder() / (make_record(256, {2}).id + ".h5"));
  std::ofstream(temporary_in(folder(), "half")) << "x";
  (void)merge_after_crash(path());
  EXPECT_EQ(contexts(), (std::vector<std::int64_t>{128, 256, 512}));
  EXPECT_EQ(open_result_file(path()).attribute("complete"), hdf5::Attribute(false));
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(ResumeTest, MergeAfterACrashNeedsACase) {
  const auto refusal = [&] { return message_of([&] { (void)merge_after_crash(path()); }); };
  const std::string nothing = ": there is nothing to merge";
  EXPECT_EQ(refusal(), folder().string() + " does not exist" + nothing);
  make_file({make_record(128, {1})});
  EXPECT_EQ(refusal(), folder().string() + " does not exist" + nothing);
  EXPECT_FALSE(fs::exists(folder()));
  fs::create_directories(folder());
  EXPECT_EQ(refusal(), folder().string() + " holds no finished case" + nothing);
  EXPECT_THROW((void)merge_after_crash(root() / "F.txt"), UsageError);
}

}  // namespace
}  // namespace paceline
