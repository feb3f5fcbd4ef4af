#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/screen.h"
#include "core/whole_file.h"
#include "record/result_file.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

// The regular files of a folder for which wanted() is true, sorted. A link is not a regular file.
template <class Wanted>
std::vector<fs::path> files_in(const fs::path& folder, const Wanted& wanted) {
  std::vector<fs::path> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) {
    if (fs::is_regular_file(entry.symlink_status(absent)) && wanted(entry.path()))
      found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

// Whether the name still refers to the open file: a run that held the lock before may have removed
// or replaced it, and a lock on an unlinked file excludes no other run.
bool is_named(int descriptor, const fs::path& name) {
  struct stat open_file {};
  struct stat named {};
  return fstat(descriptor, &open_file) == 0 && stat(name.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

}  // namespace

std::vector<fs::path> case_files(const fs::path& folder) {
  return files_in(folder, [](const fs::path& path) { return path.extension() == ".h5"; });
}

LockedFolder::LockedFolder(fs::path folder, double patience_s) : folder_(std::move(folder)) {
  if (std::error_code ignored; fs::is_symlink(folder_, ignored)) {
    throw UsageError(
        fmt::format("{} is a symbolic link: remove it or name another --output; "
                    "the result file itself may be a link",
                    folder_.string()));
  }
  const double began = host_seconds();
  while (!try_lock()) {
    if (host_seconds() - began > patience_s) {
      throw UsageError(
          fmt::format("another run is writing to {}; wait for its end or name another --output",
                      folder_.string()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::error_code ignored;
  for (const fs::path& path : files_in(folder_, is_temporary)) fs::remove(path, ignored);
}

LockedFolder::~LockedFolder() {
  if (lock_ >= 0) remove({});
}

bool LockedFolder::is_locked() const { return is_named(lock_, folder_ / ".lock"); }

// The lock's file goes last. From then on a waiting run may create its own, which keeps the folder.
void LockedFolder::remove(const std::vector<fs::path>& files) {
  std::error_code ignored;
  for (const fs::path& path : files) fs::remove(path, ignored);
  const fs::path name = folder_ / ".lock";
  if (is_locked() && fs::is_empty(name, ignored)) fs::remove(name, ignored);
  fs::remove(folder_, ignored);  // fails unless it is empty
  close(std::exchange(lock_, -1));
}

// False: another run has the lock, or had it and has removed its file since.
bool LockedFolder::try_lock() {
  std::error_code error;
  fs::create_directories(folder_, error);
  const fs::path name = folder_ / ".lock";
  const int lock = error ? -1 : open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (!error && lock < 0 && errno == ENOENT) return false;
  if (lock < 0) {
    const std::string why = error ? error.message() : std::generic_category().message(errno);
    throw UsageError(
        fmt::format("--output {}: cannot write to {} ({}); name a file in a folder that can be "
                    "written",
                    fs::path(folder_).replace_extension().string(), folder_.string(), why));
  }
  const int refused = flock(lock, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (refused == EWOULDBLOCK || !is_named(lock, name)) {
    close(lock);
    return false;
  }
  if (refused != 0) {
    write_to(stderr, "warning: {} has no lock ({}): let no second run write to this --output\n",
             folder_.string(), std::generic_category().message(refused));
  }
  lock_ = lock;
  return true;
}

}  // namespace paceline
