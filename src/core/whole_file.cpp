#include "core/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "core/fnv1a.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

std::string seal_of(std::string_view bytes) {
  return fmt::format("\npaceline {:016x}\n", digest(bytes));
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
  std::error_code absent;
  return {fs::last_write_time(path, absent), fs::file_size(path, absent)};
}

fs::path result_path(const fs::path& path, std::string_view command) {
  const auto refusal = [&](std::string_view why) {
    return UsageError(fmt::format("{} {}: {}", command, path.string(), why));
  };
  if (path.extension() != ".h5") throw refusal("the name must end in .h5");
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  if (fs::is_directory(status)) throw refusal("is a folder; name a file");
  if (status.type() != fs::file_type::not_found && !fs::is_regular_file(status)) {
    throw refusal((unknown ? unknown.message() : "is a device or a pipe") + "; name another file");
  }
  return target_of(path);
}

fs::path cases_folder(const fs::path& output) { return target_of(output).string() + ".cases"; }

fs::path temporary_in(const fs::path& folder, const std::string& name) {
  return folder / (".paceline-" + name + ".tmp");
}

bool is_temporary(const fs::path& path) {
  return path.extension() == ".tmp" && path.filename().string().starts_with(".paceline-");
}

std::error_code write_whole(const fs::path& path, const fs::path& temporary,
                            std::string_view bytes) {
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  const bool written = file != nullptr &&
                       std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() &&
                       std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  std::error_code error(written ? 0 : errno, std::generic_category());
  if (file != nullptr && std::fclose(file) != 0 && !error) error.assign(errno, error.category());
  if (!error) fs::rename(temporary, path, error);
  std::error_code ignored;
  if (error) fs::remove(temporary, ignored);
  // The folder's entry is flushed as well; not every file system can.
  const int folder = open(path.parent_path().empty() ? "." : path.parent_path().c_str(), O_RDONLY);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
  return error;
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

std::uint64_t digest(std::string_view bytes) {
  Fnv1a hash;
  for (const char c : bytes) hash.add(static_cast<unsigned char>(c));
  return hash.sum();
}

std::string sealed(std::string_view bytes) { return std::string(bytes) + seal_of(bytes); }

std::optional<std::string> unsealed(const fs::path& path) {
  const auto refusal = [&](const std::string& why) {
    return UsageError(fmt::format("cannot read {}: {}", path.string(), why));
  };
  std::error_code unknown;
  const std::uintmax_t size = fs::file_size(path, unknown);
  if (unknown) throw refusal(unknown.message());
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    throw refusal(std::generic_category().message(errno));
  }
  const std::size_t seal_size = seal_of("").size();
  if (bytes.size() < seal_size) return std::nullopt;
  const std::string seal = bytes.substr(bytes.size() - seal_size);
  bytes.resize(bytes.size() - seal_size);
  if (seal != seal_of(bytes)) return std::nullopt;
  return bytes;
}

}  // namespace paceline
