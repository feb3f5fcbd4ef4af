#include "record/locked_folder.h"

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
#include "record/whole_file.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

constexpr const char* lock_name = ".lock";

[[noreturn]] void throw_unwritable_folder(const fs::path& folder, const std::string& why) {
  fs::path output = folder;
  output.replace_extension();  // F.h5.cases -> F.h5
  throw UsageError(fmt::format(
      "--output {}: cannot write to {} ({}); name a file in a folder that can be written",
      output.string(), folder.string(), why));
}

// The folders above `folder` that do not exist yet, deepest first.
std::vector<fs::path> missing_parents(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (fs::path p = folder.parent_path(); !p.empty() && !fs::exists(p, ignored);
       p = p.parent_path()) {
    missing.push_back(p);
  }
  return missing;
}

// The regular files of a folder for which wanted() is true, sorted; empty if there is no such
// folder. A link is not a regular file.
template <class Wanted>
std::vector<fs::path> files(const fs::path& folder, const Wanted& wanted) {
  std::vector<fs::path> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) {
    if (fs::is_regular_file(entry.symlink_status(absent)) && wanted(entry.path()))
      found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void remove_files(const std::vector<fs::path>& paths) {
  std::error_code ignored;
  for (const fs::path& path : paths) fs::remove(path, ignored);
}

}  // namespace

bool still_named(int descriptor, const fs::path& name) {
  struct stat open_file {};
  struct stat named {};
  return fstat(descriptor, &open_file) == 0 && stat(name.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

std::vector<fs::path> case_files(const fs::path& folder) {
  return files(folder, [](const fs::path& path) { return path.extension() == ".h5"; });
}

void remove_temporaries(const fs::path& folder) { remove_files(files(folder, is_temporary)); }

LockedFolder::LockedFolder(fs::path folder, double patience)
    : folder_(std::move(folder)), made_parents_(missing_parents(folder_)) {
  if (std::error_code ignored; fs::is_symlink(folder_, ignored)) {
    throw UsageError(
        fmt::format("{} is a symbolic link: remove it or name another --output; "
                    "the result file itself may be a link",
                    folder_.string()));
  }
  try {
    lock(patience);
  } catch (...) {
    remove_what_is_empty();
    throw;
  }
  remove_temporaries(folder_);
}

LockedFolder::~LockedFolder() {
  if (lock_ < 0) return;
  std::error_code ignored;
  if (std::distance(fs::directory_iterator(folder_, ignored), {}) == 1) unlock_and_remove();
  if (lock_ >= 0) close(lock_);
}

bool LockedFolder::is_locked() const { return still_named(lock_, folder_ / lock_name); }

void LockedFolder::remove(const std::vector<fs::path>& files) {
  remove_files(files);
  unlock_and_remove();
}

// The lock file is unlinked last, when nothing else is in the folder. From then on a waiting run
// may create its own lock file; the folder is kept in that case.
void LockedFolder::unlock_and_remove() {
  std::error_code ignored;
  const fs::path name = folder_ / lock_name;
  if (is_locked() && fs::is_empty(name, ignored)) fs::remove(name, ignored);
  remove_what_is_empty();
  close(lock_);
  lock_ = -1;
}

void LockedFolder::lock(double patience) {
  const double began = host_seconds();
  while (!try_lock()) {
    if (host_seconds() - began > patience) {
      throw UsageError(
          fmt::format("another run is writing to {}; wait for its end or name another --output",
                      folder_.string()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// False: another run has the lock, or had it and has removed its file since.
bool LockedFolder::try_lock() {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw_unwritable_folder(folder_, error.message());
  const fs::path name = folder_ / lock_name;
  const int descriptor = open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    if (errno == ENOENT) return false;
    throw_unwritable_folder(folder_, std::generic_category().message(errno));
  }
  const int refused = flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  const bool is_held = refused == EWOULDBLOCK || refused == EINTR;
  if (is_held || !still_named(descriptor, name)) {
    close(descriptor);
    return false;
  }
  if (refused != 0) {
    write_to(stderr, "warning: {} has no lock ({}): let no second run write to this --output\n",
             folder_.string(), std::generic_category().message(refused));
  }
  lock_ = descriptor;
  return true;
}

void LockedFolder::remove_what_is_empty() const {
  std::error_code ignored;
  fs::remove(folder_, ignored);  // fails unless it is empty
  for (const fs::path& parent : made_parents_) fs::remove(parent, ignored);
}

}  // namespace paceline
