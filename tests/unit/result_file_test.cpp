#include "record/result_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "result_files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using Existing = ResultFile::Existing;

class ResultFileTest : public ResultFiles {};

TEST_F(ResultFileTest, ACaseFileIsSchema2) {
  setenv("SLURM_JOB_ID", "4711", 1);
  setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  unsetenv("SLURM_RESTART_COUNT");
  const CaseRecord record = rich_record();
  ResultFile results(path(), Existing::refuse, "model");
  results.write(record, make_run(2));
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_ARRAY_TASK_ID");

  const hdf5::File file = open_result_file(folder() / (record.id + ".h5"));
  EXPECT_EQ(file.text_attribute("schema"), "paceline");
  EXPECT_EQ(file.attribute("schema_version"), hdf5::Attribute(std::int64_t{2}));
  EXPECT_EQ(file.text_attribute("software"), "paceline");
  EXPECT_EQ(file.text_attribute("software_version"), software_version());
  EXPECT_EQ(file.text_attribute("created").size(), 20U);
  EXPECT_EQ(file.text_attribute("command"), "paceline model --size small");
  EXPECT_EQ(file.text_attribute("experiment"), "model");
  EXPECT_EQ(file.attribute("complete"), hdf5::Attribute(false));
  EXPECT_EQ(file.group("environment").text_attribute("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(file.dataset("ranks/rank").read<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(file.dataset("ranks/device").read<std::string>().at(1), "Some CPU");
  EXPECT_FALSE(file.has("ranks/gpu_uuid"));  // there is no GPU
  EXPECT_FALSE(file.has("ranks/pci_bus_id"));
  EXPECT_EQ(file.dataset("ranks/cores").read<std::string>().at(0), "0-3");

  const hdf5::Group c = file.group("cases/" + record.id);
  EXPECT_EQ(c.attribute("size"), hdf5::Attribute("small"));
  EXPECT_EQ(c.attribute("context"), hdf5::Attribute(std::int64_t{128}));
  EXPECT_EQ(c.attribute("lr"), hdf5::Attribute(0.001));
  EXPECT_EQ(c.attribute("deterministic"), hdf5::Attribute(true));
  EXPECT_EQ(c.text_attribute("status"), "ok");
  EXPECT_FALSE(c.has_attribute("reason"));
  EXPECT_EQ(c.text_attribute("stop_reason"), "steps");
  EXPECT_EQ(c.text_attribute("run"), "20261124T150639.123Z");
  EXPECT_EQ(c.text_attribute("slurm_job_id"), "4711");
  EXPECT_EQ(c.text_attribute("array_task"), "3");
  EXPECT_EQ(c.text_attribute("restart"), "0");
  EXPECT_EQ(file.dataset("summary/array_task").read<std::string>(), std::vector<std::string>{"3"});
  EXPECT_EQ(c.dataset("samples/forward").dims(), (hdf5::Dims{2, 3}));
  EXPECT_EQ(c.dataset("samples/forward").read<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(c.dataset("samples/forward").text_attribute("unit"), "s");
  EXPECT_EQ(c.dataset("samples_warmup/forward").dims(), (hdf5::Dims{2, 2}));
  EXPECT_EQ(c.dataset("samples_warmup/step").dims(), (hdf5::Dims{2, 2}));
  EXPECT_EQ(c.dataset("repetition").read<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(c.group("samples").text_attribute("headline"), "step");
  EXPECT_EQ(c.dataset("memory/bytes").text_attribute("unit"), "bytes");
  EXPECT_EQ(c.dataset("memory/blocks/scope").read<std::string>(),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.dataset("summary/step_median_s").read<double>(), std::vector<double>{0.5});
  EXPECT_EQ(file.dataset("summary/tokens_per_s").text_attribute("unit"), "1/s");

  EXPECT_TRUE(results.has(record.id));
}

TEST_F(ResultFileTest, MergeMakesOneFileAndRemovesTheFolder) {
  ResultFile results(path(), Existing::refuse, "model");
  const std::vector<CaseRecord> records = {make_record(512, {3}), make_record(128, {1}),
                                           make_oom(256)};
  for (const CaseRecord& record : records) results.write(record, make_run());
  EXPECT_FALSE(fs::exists(path()));
  results.merge({records[1].id, records[2].id, records[0].id}, true);

  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_EQ(std::distance(fs::directory_iterator(root()), {}), 1);
  EXPECT_EQ(case_names(), (std::vector<std::string>{records[1].id, records[2].id, records[0].id}));
  EXPECT_EQ(contexts(), (std::vector<std::int64_t>{128, 256, 512}));
  const auto summary = read_summary(path());
  EXPECT_EQ(values<std::string>(summary, "status"), (std::vector<std::string>{"ok", "oom", "ok"}));
  EXPECT_EQ(values<double>(summary, "step_median_s").at(0), 1);
  EXPECT_TRUE(std::isnan(values<double>(summary, "step_median_s").at(1)));
  EXPECT_EQ(values<double>(summary, "slowest_rank").at(2), 0);
  EXPECT_EQ(find_column(summary, "step_median_s")->unit, "s");
  const hdf5::File file = open_result_file(path());
  EXPECT_EQ(file.attribute("complete"), hdf5::Attribute(true));
  EXPECT_EQ(file.text_attribute("experiment"), "model");
  EXPECT_EQ(file.group("environment").text_attribute("mpi"), "Open MPI 4.1.4");
  EXPECT_EQ(file.group("cases/" + records[0].id).dataset("samples/step").read<double>(),
            std::vector<double>{3});
}

TEST_F(ResultFileTest, CasesOutsideTheSweepComeLastByName) {
  ResultFile results(path(), Existing::refuse, "model");
  const CaseRecord a = make_record(1, {1});
  const CaseRecord b = make_record(2, {1});
  const CaseRecord c = make_record(3, {1});
  for (const CaseRecord* record : {&c, &b, &a}) results.write(*record, make_run());
  results.merge({c.id, "not-there"}, false);
  EXPECT_EQ(contexts(), (std::vector<std::int64_t>{3, 1, 2}));
  EXPECT_EQ(open_result_file(path()).attribute("complete"), hdf5::Attribute(false));
}

TEST_F(ResultFileTest, NothingToMergeLeavesNothing) {
  {
    ResultFile results(root() / "F.h5", Existing::refuse, "model");
    results.merge({"a"}, false);
  }
  EXPECT_TRUE(fs::is_empty(root()));
  { const ResultFile results(path(), Existing::refuse, "model"); }
  EXPECT_TRUE(fs::is_empty(root()));
}

TEST_F(ResultFileTest, RefusesAFileThatExists) {
  make_file({make_record(128, {1})});
  EXPECT_EQ(message_of([&] { ResultFile(path(), Existing::refuse, "model"); }),
            "--output " + path().string() +
                " exists: give --resume to keep its finished cases, --force to replace it, or name "
                "another file");
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(ResultFileTest, RefusesFinishedCasesOfACrashedRun) {
  {
    ResultFile crashed(path(), Existing::refuse, "model");
    crashed.write(make_record(128, {1}), make_run());
  }
  const std::string message = message_of([&] { ResultFile(path(), Existing::refuse, "model"); });
  EXPECT_NE(message.find("--resume"), std::string::npos) << message;
  EXPECT_NE(message.find("--force"), std::string::npos) << message;
  EXPECT_NE(message.find("paceline merge"), std::string::npos) << message;
  EXPECT_EQ(case_files(folder()).size(), 1U);  // the finished case is kept
}

TEST_F(ResultFileTest, ReplaceRemovesOldResults) {
  make_file({make_record(128, {1})});
  fs::create_directories(folder());
  std::ofstream(folder() / "small-128-0123abcd.h5") << "x";
  ResultFile results(path(), Existing::replace, "model");
  EXPECT_TRUE(case_files(folder()).empty());
  EXPECT_TRUE(fs::exists(path()));  // until there is something in its place
  const CaseRecord record = make_record(256, {1});
  results.write(record, make_run());
  EXPECT_FALSE(fs::exists(path()));  // so that merge and --resume do not mix old and new cases
  results.merge({record.id}, true);
  EXPECT_EQ(contexts(), std::vector<std::int64_t>{256});
}

TEST_F(ResultFileTest, TheNameMustEndInH5) {
  EXPECT_EQ(message_of([&] { ResultFile(root() / "F.hdf", Existing::refuse, "model"); }),
            "--output " + (root() / "F.hdf").string() + ": the name must end in .h5");
  EXPECT_THROW(ResultFile(root() / ".h5", Existing::refuse, "model"), UsageError);
  EXPECT_THROW(ResultFile("", Existing::refuse, "model"), UsageError);
  fs::create_directories(root() / "dir.h5");
  EXPECT_THROW(ResultFile(root() / "dir.h5", Existing::replace, "model"), UsageError);
  EXPECT_EQ(std::distance(fs::directory_iterator(root()), {}), 1);
}

TEST_F(ResultFileTest, APlaceThatCannotBeWrittenIsNamedAndLeftAlone) {
  std::ofstream(root() / "file") << "x";
  const std::string file = (root() / "file" / "deep" / "F.h5").string();
  EXPECT_EQ(message_of([&] { ResultFile(file, Existing::refuse, "model"); }),
            "--output " + file + ": cannot write to " + file +
                ".cases (Not a directory); name a file in a folder that can be written");
  EXPECT_EQ(std::distance(fs::directory_iterator(root()), {}), 1);
}

TEST_F(ResultFileTest, RaggedSamplesLeaveNoFile) {
  ResultFile results(path(), Existing::refuse, "model");
  CaseRecord record = make_record(128, {1});
  record.samples[0].measured = {{1, 2}, {1}};
  EXPECT_THROW(results.write(record, make_run()), InternalError);
  record.samples[0].measured = {{1}};
  record.tables = {
      {"memory", {{"a", "", std::vector<double>{1, 2}}, {"b", "", std::vector<double>{1}}}}};
  EXPECT_THROW(results.write(record, make_run()), InternalError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);  // the lock
}

// Runs `work` in a child process whose files cannot exceed `bytes`, as on a full disk. Returns
// whether it threw StoppedError.
bool stopped_on_full_disk(std::size_t bytes, const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      work();
    } catch (const StoppedError&) {
      _exit(1);
    } catch (...) {
      _exit(2);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

TEST_F(ResultFileTest, AFullDiskStopsTheRunAndLeavesNothingHalfWritten) {
  const CaseRecord small = make_record(128, {1});
  const CaseRecord large = make_record(256, std::vector<double>(100'000, 1.0));
  EXPECT_TRUE(stopped_on_full_disk(200'000, [&] {
    ResultFile results(path(), Existing::refuse, "model");
    results.write(small, make_run());
    results.write(large, make_run());
  }));
  EXPECT_EQ(case_files(folder()).size(), 1U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);
  (void)merge_after_crash(path());
  EXPECT_EQ(contexts(), std::vector<std::int64_t>{128});
}

TEST_F(ResultFileTest, AFullDiskAtTheMergeKeepsTheCases) {
  const auto seconds = std::vector<double>(10'000, 1.0);
  EXPECT_TRUE(stopped_on_full_disk(200'000, [&] {
    ResultFile results(path(), Existing::refuse, "model");
    for (int i = 0; i < 3; ++i) results.write(make_record(i, seconds), make_run());
    results.merge({}, true);
  }));
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_EQ(case_files(folder()).size(), 3U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 3);
  (void)merge_after_crash(path());
  EXPECT_EQ(contexts(), (std::vector<std::int64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace paceline
