#include "record/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace paceline {

namespace fs = std::filesystem;

namespace {

// Writes all bytes to a new file and flushes them to disk; returns errno, or 0.
int write_bytes(const fs::path& path, std::string_view bytes) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) return errno;
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(descriptor) != 0) error = errno;
  if (close(descriptor) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

fs::path target_of(fs::path path) {
  constexpr int most = 40;  // links may form a cycle
  std::error_code none;
  for (int i = 0; i < most && fs::is_symlink(path, none); ++i) {
    path = path.parent_path() / fs::read_symlink(path, none);
  }
  return path;
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code none;
  const auto resolved = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(target_of(path), none), none);
  };
  const fs::path first = resolved(a);  // empty in a folder that cannot be searched
  return (!first.empty() && first == resolved(b)) || fs::equivalent(a, b, none);
}

FileState state_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_ino, status.st_size, {status.st_mtim.tv_sec, status.st_mtim.tv_nsec}};
}

fs::path temporary_in(const fs::path& folder, const std::string& name) {
  return folder / (".paceline-" + name + ".tmp");
}

bool is_temporary(const fs::path& path) {
  return path.extension() == ".tmp" && path.filename().string().starts_with(".paceline-");
}

std::error_code write_whole(const fs::path& path, const fs::path& temporary,
                            std::string_view bytes) {
  std::error_code error(write_bytes(temporary, bytes), std::generic_category());
  if (!error) fs::rename(temporary, path, error);
  std::error_code ignored;
  if (error) fs::remove(temporary, ignored);
  return error;
}

void flush_folder(const fs::path& folder) {
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

fs::path write_elsewhere(const fs::path& name, std::string_view bytes) {
  std::error_code none;
  for (const fs::path& place : {fs::temp_directory_path(none), fs::path("/dev/shm")}) {
    std::string folder = (place / "paceline-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) continue;
    fs::path path = folder / name;
    if (!write_whole(path, path.string() + ".tmp", bytes)) return path;
    fs::remove(folder, none);
  }
  return {};
}

}  // namespace paceline
