// Resuming an existing result file, and the merge after a crash.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/whole_file.h"
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
    EXPECT_TRUE(results.has(a.id));
    EXPECT_FALSE(results.has(b.id));  // oom cases are measured again
    const CaseRecord c = make_record(512, {3, 4});
    EXPECT_FALSE(results.has(c.id));
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

TEST_F(ResumeTest, KeepsOnlyOkAndSkippedCases) {
  for (const Status status :
       {Status::ok, Status::skipped, Status::oom, Status::diverged, Status::mismatch}) {
    CaseRecord record = make_record(128, {1});
    record.status = status;
    make_file({record});
    const ResultFile results(path(), Existing::resume, "model");
    EXPECT_EQ(results.has(record.id), status == Status::ok || status == Status::skipped)
        << name_of(status);
  }
}

TEST_F(ResumeTest, RefusesOtherFilesAndOtherSchemas) {
  const auto refusal = [&] {
    return message_of([&] { ResultFile(path(), Existing::resume, "model"); });
  };
  const std::string cannot = "cannot read " + path().string() + ": ";
  std::ofstream(path()) << "no results";
  EXPECT_TRUE(refusal().starts_with(cannot));
  const hdf5::File other = hdf5::File::in_memory();
  std::ofstream(path()) << other.image();
  EXPECT_EQ(refusal(), cannot + "it is not a result file");
  other.set_attribute("schema", std::string("paceline"));
  (void)other.make_group("runs");
  for (const std::int64_t version : {1, 3}) {
    other.set_attribute("schema_version", version);
    std::ofstream(path()) << other.image();
    EXPECT_EQ(refusal(), cannot + "it is from another version of paceline; move it away");
  }
  EXPECT_TRUE(fs::exists(path()));
  EXPECT_FALSE(fs::exists(folder()));
}

// A case file is used as it was written, or set aside: whatever byte changed, and wherever it ends.
TEST_F(ResumeTest, DamagedCaseFilesAreSetAside) {
  const CaseRecord record = make_record(128, {1});
  { ResultFile(path(), Existing::refuse, "model").write(record, make_run()); }
  const fs::path file = folder() / (record.id + ".h5");
  std::string whole;
  {
    std::ifstream in(file, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (std::size_t i = 0; i < whole.size(); i += whole.size() / 50) {
    for (const bool flips : {true, false}) {
      std::string damaged = flips ? whole : whole.substr(0, i);
      if (flips) damaged[i] = static_cast<char>(damaged[i] ^ 1);
      fs::create_directories(folder());
      std::ofstream(file, std::ios::binary) << damaged;
      const ResultFile results(path(), Existing::resume, "model");
      EXPECT_FALSE(results.has(record.id));
      const fs::path aside = path().string() + "." + record.id + ".damaged";
      EXPECT_EQ(results.damaged(),
                std::vector<std::string>{file.string() +
                                         " is damaged, or from an older version; it is now " +
                                         aside.string()});
      EXPECT_TRUE(fs::remove(aside));
    }
  }
  fs::create_directories(folder());
  std::ofstream(file, std::ios::binary) << whole;
  EXPECT_TRUE(ResultFile(path(), Existing::resume, "model").has(record.id));
}

TEST_F(ResumeTest, AFileThatCannotBeReadIsNotCalledDamaged) {
  for (const fs::path& file : {root(), root() / "none.h5"}) {
    EXPECT_TRUE(message_of([&] {
                  (void)unsealed(file);
                }).starts_with("cannot read " + file.string() + ": "));
  }
}

// What merging needs is asked for before anything is measured.
TEST_F(ResumeTest, AFileWithoutTheRunOrTheRowOfACaseIsRefused) {
  const CaseRecord record = make_record(128, {1});
  for (const char* missing : {"runs", "summary/case"}) {
    make_file({record});
    const hid_t file = H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    EXPECT_EQ(H5Ldelete(file, missing, H5P_DEFAULT), 0);
    H5Fclose(file);
    EXPECT_TRUE(message_of([&] {
                  ResultFile(path(), Existing::resume, "model");
                }).starts_with("cannot read " + path().string() + ": "))
        << missing;
    fs::remove(path());
  }
}

TEST_F(ResumeTest, MergeKeepsTheOrderOfTheFile) {
  make_file({make_record(256, {1}), make_record(128, {1})});
  { ResultFile(path(), Existing::resume, "model").write(make_record(64, {1}), make_run()); }
  std::ofstream(temporary_in(folder(), "half")) << "x";
  (void)merge_after_crash(path());
  EXPECT_EQ(contexts(), (std::vector<std::int64_t>{256, 128, 64}));
  EXPECT_EQ(open_result_file(path()).attribute("complete"), hdf5::Attribute(false));
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

using Existing = ResultFile::Existing;

class ChangedFilesTest : public ResultFiles {
 protected:
  [[nodiscard]] fs::path file_of(const CaseRecord& record) const {
    return folder() / (record.id + ".h5");
  }
  [[nodiscard]] bool is_complete() const {
    return open_result_file(path()).attribute("complete") == hdf5::Attribute(true);
  }
  [[nodiscard]] static std::string text_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  const CaseRecord a_ = make_record(1, {1});
  const CaseRecord b_ = make_record(2, {1});
};

// The message of the StoppedError that work() throws.
std::string stopped(const std::function<void()>& work) {
  try {
    work();
  } catch (const StoppedError& error) {
    return error.what();
  }
  return "(no StoppedError)";
}

TEST_F(ChangedFilesTest, ACaseThatIsLostIsNamedAndTheOthersAreMerged) {
  const fs::path file = file_of(a_);
  const std::vector<std::function<void()>> changes = {[&] { fs::remove(file); },
                                                      [&] { fs::resize_file(file, 100); },
                                                      [&] { std::ofstream(file) << "x"; },
                                                      [&] {
                                                        fs::remove(file);
                                                        fs::copy(file_of(b_), file);
                                                      },
                                                      [&] {
                                                        fs::remove(file);
                                                        fs::create_directories(file / "notes");
                                                      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    ResultFile results(path(), Existing::refuse, "model");
    results.write(a_, make_run());
    results.write(b_, make_run());
    changes[i]();
    EXPECT_EQ(results.merge({a_.id, b_.id}, true),
              a_.id + ".h5 of " + folder().string() +
                  " was removed or changed while the sweep ran; --resume measures it again");
    EXPECT_EQ(contexts(), std::vector<std::int64_t>{2});
    EXPECT_FALSE(is_complete());
    EXPECT_EQ(fs::exists(file), i > 0) << i;
    fs::remove(path());
    fs::remove_all(folder());
  }
}

TEST_F(ChangedFilesTest, AResumedFileKeepsItsCasesIfANewOneIsLost) {
  make_file({a_});
  ResultFile results(path(), Existing::resume, "model");
  results.write(b_, make_run());
  fs::remove(file_of(b_));
  EXPECT_TRUE(results.merge({a_.id, b_.id}, true).starts_with(b_.id + ".h5 of "));
  EXPECT_EQ(contexts(), std::vector<std::int64_t>{1});
  EXPECT_FALSE(is_complete());
}

TEST_F(ChangedFilesTest, OfACaseThatIsLostTheOneOfTheResumedFileIsKept) {
  make_file({a_, b_});
  ResultFile results(path(), Existing::resume, "model");
  results.write(a_, make_run());
  fs::remove(file_of(a_));
  EXPECT_TRUE(results.merge({a_.id, b_.id}, true).starts_with(a_.id + ".h5 of "));
  EXPECT_EQ(contexts(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_FALSE(is_complete());
}

TEST_F(ChangedFilesTest, WhatForceHasReplacedIsNotReplacedAgain) {
  make_file({b_});
  ResultFile results(path(), Existing::replace, "model");
  results.write(a_, make_run());
  std::ofstream(path()) << "theirs";
  EXPECT_TRUE(stopped([&] { results.merge({a_.id}, true); }).find("another program has written") !=
              std::string::npos);
  EXPECT_EQ(text_of(path()), "theirs");
}

TEST_F(ChangedFilesTest, FilesOfOthersAreNeitherMergedNorRemoved) {
  make_file({b_});
  fs::rename(path(), root() / "other.h5");
  for (const Existing existing : {Existing::refuse, Existing::replace, Existing::resume}) {
    ResultFile results(path(), existing, "model");
    results.write(a_, make_run());
    const std::vector<fs::path> of_others = {file_of(b_), folder() / "notes.h5",
                                             folder() / "notes.tmp"};
    for (const fs::path& file : of_others) fs::copy(root() / "other.h5", file);
    EXPECT_FALSE(results.has(b_.id));
    EXPECT_EQ(results.merge({a_.id}, true), "");
    EXPECT_EQ(contexts(), std::vector<std::int64_t>{1});
    EXPECT_TRUE(is_complete());
    for (const fs::path& file : of_others) EXPECT_TRUE(fs::remove(file)) << file;
    fs::remove_all(folder());
  }
}

TEST_F(ChangedFilesTest, AnOutputOfAnotherIsKeptWithoutForce) {
  for (const Existing existing : {Existing::refuse, Existing::resume, Existing::replace}) {
    if (existing == Existing::resume) make_file({b_});
    ResultFile results(path(), existing, "model");
    results.write(a_, make_run());
    std::ofstream(path()) << "theirs";
    if (existing == Existing::replace) {
      results.merge({a_.id}, true);
      EXPECT_EQ(contexts(), std::vector<std::int64_t>{1});
      continue;
    }
    EXPECT_EQ(stopped([&] { results.merge({a_.id}, true); }),
              "cannot write " + path().string() +
                  ": another program has written it meanwhile; finished cases are in " +
                  folder().string() + ": move the other file away and give --resume");
    EXPECT_EQ(text_of(path()), "theirs");
    EXPECT_TRUE(fs::exists(file_of(a_)));
    fs::remove(path());
    fs::remove_all(folder());
  }
}

// Without its lock, the folder may be that of another run.
TEST_F(ChangedFilesTest, NothingIsWrittenToAFolderThatIsNoLongerLocked) {
  ResultFile results(path(), Existing::refuse, "model");
  results.write(a_, make_run());
  fs::remove_all(folder());
  ResultFile other(path(), Existing::refuse, "model");
  other.write(b_, make_run());
  EXPECT_NE(stopped([&] { results.merge({a_.id}, true); }).find("was removed or replaced"),
            std::string::npos);
  const std::string message = stopped([&] { results.write(a_, make_run()); });
  const std::string begin = "cannot write " + file_of(a_).string() +
                            ": the folder of its cases was removed or replaced meanwhile; the case "
                            "is in ";
  ASSERT_TRUE(message.starts_with(begin)) << message;
  const fs::path elsewhere = message.substr(begin.size(), message.find(": move it") - begin.size());
  EXPECT_EQ(elsewhere.filename(), file_of(a_).filename());
  fs::remove_all(elsewhere.parent_path());
  EXPECT_EQ(case_files(folder()), std::vector<fs::path>{file_of(b_)});
  other.merge({b_.id}, true);
  EXPECT_EQ(contexts(), std::vector<std::int64_t>{2});
  EXPECT_FALSE(fs::exists(folder()));
}

}  // namespace
}  // namespace paceline
