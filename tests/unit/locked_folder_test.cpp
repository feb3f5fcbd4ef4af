#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/non_copyable.h"
#include "core/whole_file.h"
#include "record/result_file.h"
#include "temp_folder.h"

// If set, runs once between open() and flock() of a lock file.
static std::function<void()> before_flock;
static int flock_error = 0;  // of a file system without locks

// Replaces the C library's flock.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" int flock(int descriptor, int operation) noexcept {
  if (before_flock) std::exchange(before_flock, nullptr)();
  if (flock_error != 0) {
    errno = flock_error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, descriptor, operation));
}

namespace paceline {
namespace {

namespace fs = std::filesystem;

class LockedFolderTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path root() const { return temp_.path(); }
  [[nodiscard]] fs::path folder() const { return root() / "runs" / "F.h5.cases"; }
  static void touch(const fs::path& path) { std::ofstream(path) << "x"; }

 private:
  TempFolder temp_;
};

constexpr double enough = 60;  // seconds to wait for a lock that will become free

// A child process that takes the lock, reports it, and calls `work` after go_on().
class Holder : NonCopyable {
 public:
  explicit Holder(
      const fs::path& folder, const std::function<void(LockedFolder&)>& work = [](auto&) {}) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("socketpair");
    child_ = fork();
    own_end_ = ends[child_ == 0 ? 1 : 0];
    close(ends[child_ == 0 ? 0 : 1]);
    if (child_ == 0) {
      {
        LockedFolder locked(folder);
        say();
        hear();
        work(locked);
      }
      _exit(0);
    }
    hear();
  }
  ~Holder() {
    end(SIGKILL);
    close(own_end_);
  }

  void go_on() const { say(); }
  void end(int signal) {
    if (child_ == 0) return;
    kill(child_, signal);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  void say() const { (void)!write(own_end_, "x", 1); }
  void hear() const {
    char c = 0;
    (void)!read(own_end_, &c, 1);
  }

  pid_t child_ = 0;
  int own_end_ = -1;
};

TEST_F(LockedFolderTest, RemovesWhatAKilledRunWasWritingAndNothingElse) {
  fs::create_directories(temporary_in(folder(), "folder"));
  fs::create_directories(folder() / "a.tmp");
  const std::vector<fs::path> of_others = {
      folder() / "a.h5", folder() / "a.h5.tmp", folder() / "a.tmp" / "b", folder() / ".paceline-a",
      temporary_in(temporary_in(folder(), "folder"), "inside")};
  for (const fs::path& path : of_others) touch(path);
  fs::create_symlink("a.h5", temporary_in(folder(), "link"));
  touch(temporary_in(folder(), "a"));
  const LockedFolder locked(folder());
  EXPECT_FALSE(fs::exists(temporary_in(folder(), "a")));
  for (const fs::path& path : of_others) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_TRUE(fs::is_symlink(temporary_in(folder(), "link")));
}

TEST_F(LockedFolderTest, FoldersAndLinksAreNoCaseFiles) {
  fs::create_directories(folder() / "folder.h5");
  touch(root() / "a.h5");
  fs::create_symlink(root() / "a.h5", folder() / "link.h5");
  EXPECT_TRUE(case_files(folder()).empty());
}

TEST_F(LockedFolderTest, ALockFileThatIsNotOursIsKept) {
  fs::create_directories(folder());
  touch(root() / "target");
  fs::create_symlink(root() / "target", folder() / ".lock");
  EXPECT_THROW(LockedFolder(folder(), 0), UsageError);
  EXPECT_TRUE(fs::is_symlink(folder() / ".lock"));
  fs::remove(folder() / ".lock");
  touch(folder() / ".lock");  // not empty
  { const LockedFolder locked(folder()); }
  EXPECT_TRUE(fs::exists(folder() / ".lock"));
}

// What becomes of a folder while it is locked.
TEST_F(LockedFolderTest, ALockIsLostWithItsFileOrFolder) {
  const std::vector<std::function<void()>> changes = {
      [&] { fs::remove(folder() / ".lock"); }, [&] { fs::remove_all(folder()); },
      [&] { fs::rename(folder(), root() / "moved"); },
      [&] {
        fs::remove_all(folder());
        fs::create_directories(folder());
        std::ofstream(folder() / ".lock");  // of another run
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    {
      LockedFolder locked(folder());
      EXPECT_TRUE(locked.is_locked());
      changes[i]();
      EXPECT_FALSE(locked.is_locked()) << i;
    }
    const bool replaced = i + 1 == changes.size();
    EXPECT_EQ(fs::exists(folder() / ".lock"), replaced) << i;
  }
}

TEST_F(LockedFolderTest, AHeldLockIsRefusedAfterAWait) {
  const Holder holder(folder());
  const double began = host_seconds();
  try {
    const LockedFolder locked(folder(), 0.3);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()), "another run is writing to " + folder().string() +
                                             "; wait for its end or name another --output");
  }
  EXPECT_GE(host_seconds() - began, 0.3);
  EXPECT_LT(host_seconds() - began, 10);
  EXPECT_TRUE(fs::exists(folder() / ".lock"));  // the lock file of the holder
}

TEST_F(LockedFolderTest, WaitsForARunThatEnds) {
  const Holder holder(folder(), [](LockedFolder&) { usleep(300'000); });
  EXPECT_THROW(LockedFolder(folder(), 0), UsageError);
  holder.go_on();
  const LockedFolder locked(folder(), enough);
  EXPECT_TRUE(fs::exists(folder() / ".lock"));
}

TEST_F(LockedFolderTest, ALockOnARemovedFolderDoesNotCount) {
  // The holder removes the folder with its lock file during the wait; a new one must be created.
  const Holder holder(folder(), [](LockedFolder& locked) {
    usleep(300'000);
    locked.remove({});
    pause();
  });
  holder.go_on();
  const LockedFolder locked(folder(), enough);
  EXPECT_TRUE(fs::exists(folder() / ".lock"));
  EXPECT_THROW(LockedFolder(folder(), 0.2), UsageError);  // `locked` holds the lock
}

TEST_F(LockedFolderTest, ALockOnAReplacedFolderDoesNotCount) {
  before_flock = [this] {
    fs::rename(folder(), root() / "old");
    fs::create_directories(folder());
    touch(folder() / ".lock");
  };
  const LockedFolder locked(folder(), enough);
  EXPECT_FALSE(before_flock);
  EXPECT_TRUE(fs::exists(root() / "old" / ".lock"));
  EXPECT_THROW(LockedFolder(folder(), 0), UsageError);  // `locked` holds the lock
}

TEST_F(LockedFolderTest, AFileSystemWithoutLocksIsWarnedOf) {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    flock_error = error;
    testing::internal::CaptureStderr();
    {
      LockedFolder locked(folder(), 0);
      touch(folder() / "a.h5");
      locked.remove({folder() / "a.h5"});
    }
    flock_error = 0;
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "warning: " + folder().string() + " has no lock (" +
                  std::generic_category().message(error) +
                  "): let no second run write to this --output\n");
    EXPECT_FALSE(fs::exists(folder()));
  }
}

}  // namespace
}  // namespace paceline
