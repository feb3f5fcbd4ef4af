#include "record/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/error.h"
#include "record/case_file.h"
#include "record/sound_file.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& path) { return path.string() + ".cases"; }

// Writes all bytes to a new file and puts them on the disk; errno, or 0.
int write_bytes(const fs::path& path, std::string_view bytes) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
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

// Puts a new name onto the disk. Not every file system can, and the file is whole without.
void flush_folder(const fs::path& folder) {
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

// Gives the file its name only when it is on the disk: whoever finds `path` finds it whole.
void write_whole(const fs::path& path, const fs::path& temporary, const hdf5::File& file) {
  int error = write_bytes(temporary, file.image());
  std::error_code renaming;
  if (error == 0) {
    fs::rename(temporary, path, renaming);
    error = renaming.value();
  }
  if (error == 0) return;
  fs::remove(temporary, renaming);
  throw StoppedError(fmt::format(
      "cannot write {}: {}; make room there: finished cases are kept, and --resume goes on from "
      "them",
      path.string(), std::generic_category().message(error)));
}

void write_case(const fs::path& path, const hdf5::File& file) {
  write_whole(path, path.string() + ".tmp", file);
}

// The cases of an F.h5 as case files. Those that are there already are newer, and stay.
void split(const fs::path& path, const fs::path& folder) {
  refuse_older_schema(path);
  const hdf5::File file = open_result_file(path);
  std::vector<fs::path> made;
  try {
    const std::vector<Column> summary = read_summary(path);
    const std::vector<std::string> ids = reading(path, [&] { return file.group("cases").names(); });
    for (const std::string& id : ids) {
      const fs::path target = folder / (id + ".h5");
      if (fs::exists(target)) continue;
      write_case(target, reading(path, [&] { return extracted_case(file, summary, id); }));
      made.push_back(target);
    }
  } catch (...) {
    for (const fs::path& target : made) fs::remove(target);
    throw;
  }
}

// The files in the order of `ids`, then the others by name.
std::vector<fs::path> ordered(std::vector<fs::path> files, const std::vector<std::string>& ids) {
  const auto place = [&](const fs::path& file) {
    return std::find(ids.begin(), ids.end(), file.stem().string()) - ids.begin();
  };
  std::stable_sort(files.begin(), files.end(),
                   [&](const fs::path& a, const fs::path& b) { return place(a) < place(b); });
  return files;
}

void merge_folder(const fs::path& path, LockedFolder& folder, const std::vector<std::string>& ids,
                  bool complete, const std::vector<Table>& tables = {}) {
  const std::vector<fs::path> files = ordered(case_files(folder.path()), ids);
  if (!files.empty()) {
    write_whole(path, folder.path() / "merged.tmp", merged_file(files, complete, tables));
    flush_folder(path.parent_path());  // before the cases go
  }
  folder.remove();
}

// Why a case file cannot be read; empty: it can. Throws UsageError for one of an older schema.
std::string damage_of(const fs::path& file) {
  try {
    require_sound_file(file);
  } catch (const UsageError& error) {
    return error.what();
  }
  refuse_older_schema(file);
  try {
    (void)read_summary(file);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

// Case files that cannot be read, out of the way of the others. A line for each.
std::vector<std::string> set_aside_damaged(const fs::path& path, const fs::path& folder) {
  std::vector<std::string> lines;
  for (const fs::path& file : case_files(folder)) {
    const std::string why = damage_of(file);
    if (why.empty()) continue;
    const fs::path aside = fmt::format("{}.{}.damaged", path.string(), file.stem().string());
    fs::rename(file, aside);
    lines.push_back(fmt::format("{}; it is now {}", why, aside.string()));
  }
  return lines;
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) {
    throw UsageError(
        fmt::format("--output {}: cannot be replaced: {}", path.string(), error.message()));
  }
}

void refuse_existing(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  throw UsageError(fmt::format(
      "--output {} exists: give --resume to keep its finished cases, --force to replace it, or "
      "name another file",
      path.string()));
}

// The path, or what it is a symbolic link to, if a result file can have it: checked before the
// folder is made and locked.
fs::path checked(const fs::path& path, ResultFile::Existing existing) {
  if (path.extension() != ".h5") {
    throw UsageError(fmt::format("--output {}: the name must end in .h5", path.string()));
  }
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw UsageError(fmt::format("--output {} is a folder: name a file, such as {}", path.string(),
                                 (path / "results.h5").string()));
  }
  if (existing == ResultFile::Existing::refuse) refuse_existing(path);
  return fs::is_symlink(path, ignored) ? fs::weakly_canonical(path) : path;
}

}  // namespace

ResultFile::ResultFile(const fs::path& path, Existing existing)
    : path_(checked(path, existing)), folder_(folder_of(path_)) {
  const std::vector<fs::path> cases = case_files(folder_.path());
  switch (existing) {
    case Existing::refuse:
      refuse_existing(path_);  // the run that we waited for may have made it
      if (!cases.empty()) {
        throw UsageError(fmt::format(
            "--output {}: {} holds finished cases of a run that did not end: give --resume to "
            "keep them, --force to drop them, or 'paceline merge {}' to make a file of them",
            path_.string(), folder_.path().string(), path_.string()));
      }
      break;
    case Existing::replace:
      for (const fs::path& file : cases) remove_file(file);
      remove_file(path_);
      break;
    case Existing::resume:
      damaged_ = set_aside_damaged(path_, folder_.path());
      if (!fs::exists(path_)) break;
      require_sound_file(path_);
      split(path_, folder_.path());
      break;
  }
}

fs::path ResultFile::case_path(const std::string& id) const {
  return folder_.path() / (id + ".h5");
}

bool ResultFile::has(const std::string& id, const Case& factors, Kept kept) const {
  const fs::path path = case_path(id);
  if (!fs::exists(path)) return false;
  try {
    const hdf5::File file = open_result_file(path);
    const std::string status = file.group("cases").group(id).text_attribute("status");
    const auto theirs = read_factors(file, id).factors();
    return (kept == Kept::any || status == "ok" || status == "skipped") &&
           std::is_permutation(theirs.begin(), theirs.end(), factors.factors().begin(),
                               factors.factors().end());
  } catch (const Hdf5Error&) {
    return false;
  } catch (const UsageError&) {
    return false;  // not readable: it is measured anew
  }
}

Row ResultFile::row(const std::string& id) const { return row_of(read_summary(case_path(id)), 0); }

std::vector<Table> ResultFile::tables(const std::string& id,
                                      std::span<const std::string_view> paths) const {
  const fs::path path = case_path(id);
  return reading(path, [&] {
    const hdf5::Group group = open_result_file(path).group("cases/" + id);
    std::vector<Table> tables;
    for (const std::string_view name : paths) {
      const std::string table(name);
      if (group.has(table))
        tables.push_back({table, read_columns(group.group(table), Inner::left_out)});
    }
    return tables;
  });
}

void ResultFile::write(const CaseRecord& record, const RunInfo& run) {
  if (record.status == Status::stopped) {
    throw InternalError(fmt::format("case '{}' did not end and is not to be kept", record.id));
  }
  write_case(case_path(record.id), case_file(record, run));
}

void ResultFile::merge(const std::vector<std::string>& ids, bool complete,
                       const std::vector<Table>& tables) {
  merge_folder(path_, folder_, ids, complete, tables);
}

std::string experiment_of(const fs::path& path) {
  return reading(path, [&] { return open_result_file(path).text_attribute("experiment"); });
}

std::vector<std::string> merge_after_crash(const fs::path& given) {
  // Whether it is there or not.
  const fs::path path = checked(given, ResultFile::Existing::resume);
  if (case_files(folder_of(path)).empty()) {
    throw UsageError(fmt::format("{} holds no finished case: there is nothing to merge{}",
                                 folder_of(path).string(),
                                 fs::exists(path) ? ", the file is whole" : ""));
  }
  LockedFolder folder(folder_of(path));
  std::vector<std::string> damaged = set_aside_damaged(path, folder.path());
  std::vector<std::string> ids;
  if (fs::exists(path)) {
    require_sound_file(path);
    split(path, folder.path());
    ids = reading(path, [&] { return open_result_file(path).group("cases").names(); });
  }
  merge_folder(path, folder, ids, false);
  return damaged;
}

std::vector<Column> read_summary(const fs::path& path) {
  const hdf5::File file = open_result_file(path);
  std::vector<Column> columns = reading(path, [&] { return read_columns(file.group("summary")); });
  for (const Column& column : columns) {
    if (length_of(column) != length_of(columns.front())) {
      throw UsageError(fmt::format("{}: the columns of /summary differ in length", path.string()));
    }
  }
  return columns;
}

}  // namespace paceline
