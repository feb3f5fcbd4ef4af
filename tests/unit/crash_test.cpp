// A case that was reported as saved must survive kill -9 at any moment.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "core/error.h"
#include "record/case_file.h"
#include "record/result_file.h"
#include "records.h"
#include "temp_folder.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// Samples of 400 KB, so that some kills happen while a file is being written.
CaseRecord numbered(std::int64_t n) {
  return make_record(n, std::vector<double>(50'000, static_cast<double>(n)));
}

// Writes cases forever, and merges and resumes after every fourth. Acknowledges each saved case by
// writing its number to the pipe.
[[noreturn]] void write_without_end(const fs::path& path, int acknowledge) {
  for (std::int64_t n = 0;;) {
    ResultFile results(path, ResultFile::Existing::resume, "model");
    for (int i = 0; i < 4; ++i, ++n) {
      results.write(numbered(n), make_run());
      (void)!write(acknowledge, &n, sizeof n);
    }
    results.merge({}, false);
  }
}

// Kills such a writer `after` microseconds after it has acknowledged `count` cases; returns the
// numbers of all acknowledged cases.
std::vector<std::int64_t> acknowledged_before_kill(const fs::path& path, std::size_t count,
                                                   useconds_t after) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) write_without_end(path, ends[1]);
  close(ends[1]);
  std::vector<std::int64_t> numbers;
  const auto next = [&] {
    std::int64_t n = 0;
    if (read(ends[0], &n, sizeof n) != sizeof n) return false;
    numbers.push_back(n);
    return true;
  };
  while (numbers.size() < count && next()) {
  }
  usleep(after);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (next()) {
  }
  close(ends[0]);
  return numbers;
}

void expect_whole(const hdf5::File& file, std::int64_t n) {
  const CaseRecord record = numbered(n);
  ASSERT_TRUE(file.has("cases/" + record.id)) << n;
  const hdf5::Group group = file.group("cases/" + record.id);
  EXPECT_EQ(group.dataset("samples/step").read<double>(), record.samples[0].measured[0]);
}

TEST(Crash, NothingAcknowledgedIsLost) {
  std::mt19937 random(20261121);  // NOLINT: the same moments each time
  std::uniform_int_distribution<std::size_t> count(0, 9);
  std::uniform_int_distribution<useconds_t> moment(0, 20'000);
  std::int64_t acknowledged = 0;
  int left_folders = 0;
  for (int round = 0; round < 20; ++round) {
    const TempFolder temp;
    const fs::path path = temp.path() / "F.h5";
    const auto numbers = acknowledged_before_kill(path, count(random), moment(random));
    acknowledged += static_cast<std::int64_t>(numbers.size());

    // Before any repair, the case is in its own file or in F.h5.
    for (const std::int64_t n : numbers) {
      const fs::path own = temp.path() / "F.h5.cases" / (numbered(n).id + ".h5");
      expect_whole(hdf5::File::open(fs::exists(own) ? own : path), n);
    }
    if (!case_files(path.string() + ".cases").empty()) {
      ++left_folders;
      (void)merge_after_crash(path);
    }
    if (numbers.empty()) continue;
    const hdf5::File merged = hdf5::File::open(path);
    for (const std::int64_t n : numbers) expect_whole(merged, n);
    const std::vector<Column> summary = read_summary(merged);
    EXPECT_EQ(summary.front().name, "case");
    EXPECT_EQ(merged.group("cases").names().size(), length_of(summary.front()));
  }
  EXPECT_GT(acknowledged, 50);
  EXPECT_GT(left_folders, 5);  // enough rounds had something to repair
}

}  // namespace
}  // namespace paceline
