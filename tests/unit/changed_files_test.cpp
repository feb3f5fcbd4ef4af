// What others do to the files of a sweep while it runs.

#include <gtest/gtest.h>

#include <fstream>

#include "core/whole_file.h"
#include "result_files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
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
