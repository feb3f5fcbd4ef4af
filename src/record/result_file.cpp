#include "record/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "record/case_file.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& path) { return path.string() + ".cases"; }

// Puts what the system keeps in memory of a file or folder onto the disk; false when it cannot.
bool flush_to_disk(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool flushed = fsync(descriptor) == 0;
  const int why = errno;
  close(descriptor);
  errno = why;
  return flushed;
}

void discard(const fs::path& temporary) {
  // HDF5 keeps a file open that it cannot finish: emptied, it takes no space until we exit.
  std::error_code ignored;
  fs::resize_file(temporary, 0, ignored);
  fs::remove(temporary, ignored);
}

// Lets `build` write and close a file under a temporary name, then gives it its own: whoever finds
// `path` finds it whole.
void write_whole(const fs::path& path, const fs::path& temporary,
                 const std::function<void(const fs::path&)>& build) {
  const auto throw_stopped = [&](const std::string& why) {
    throw StoppedError(
        fmt::format("cannot write {}: {}; make room there: finished cases are kept, and --resume "
                    "goes on from them",
                    path.string(), why));
  };
  try {
    build(temporary);
    if (!flush_to_disk(temporary)) throw_stopped(std::generic_category().message(errno));
    fs::rename(temporary, path);
  } catch (const Hdf5Error& error) {
    discard(temporary);
    throw_stopped(error.what());
  } catch (const fs::filesystem_error& error) {
    discard(temporary);
    throw_stopped(error.code().message());
  } catch (...) {
    discard(temporary);
    throw;
  }
  // The new name itself; not every file system can do it, and the file is whole without.
  flush_to_disk(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

fs::path temporary_for(const fs::path& case_file) { return case_file.string() + ".tmp"; }

// The cases of an F.h5 as case files. Those that are there already are newer, and stay.
void split(const fs::path& path, const fs::path& folder) {
  const hdf5::File file = open_result_file(path);
  std::vector<fs::path> made;
  try {
    const std::vector<Column> summary = read_columns(file.group("summary"));
    for (const std::string& id : file.group("cases").names()) {
      const fs::path target = folder / (id + ".h5");
      if (fs::exists(target)) continue;
      write_whole(target, temporary_for(target),
                  [&](const fs::path& to) { extract_case(to, file, summary, id); });
      made.push_back(target);
    }
  } catch (const std::exception& error) {
    for (const fs::path& target : made) discard(target);
    if (dynamic_cast<const Hdf5Error*>(&error) == nullptr) throw;
    throw UsageError(fmt::format("cannot read {}: {}", path.string(), error.what()));
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
                  bool complete) {
  const std::vector<fs::path> files = ordered(folder.files(), ids);
  if (!files.empty()) {
    write_whole(path, folder.path() / "merged.tmp",
                [&](const fs::path& to) { merge_case_files(to, files, complete); });
  }
  folder.remove();
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) {
    throw UsageError(
        fmt::format("--output {}: cannot be replaced: {}", path.string(), error.message()));
  }
}

// The path itself, if a result file can have it.
fs::path checked(fs::path path) {
  if (path.extension() != ".h5") {
    throw UsageError(fmt::format("--output {}: the name must end in .h5", path.string()));
  }
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw UsageError(fmt::format("--output {} is a folder: name a file, such as {}", path.string(),
                                 (path / "results.h5").string()));
  }
  return path;
}

void refuse_existing(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  throw UsageError(fmt::format(
      "--output {} exists: give --resume to keep its finished cases, --force to replace it, or "
      "name another file",
      path.string()));
}

// Checked before the folder is made and locked.
fs::path accepted(fs::path path, ResultFile::Existing existing) {
  path = checked(std::move(path));
  if (existing == ResultFile::Existing::refuse) refuse_existing(path);
  return path;
}

std::map<std::string, Value> by_name(const Case& factors) {
  return {factors.factors().begin(), factors.factors().end()};
}

}  // namespace

ResultFile::ResultFile(fs::path path, Existing existing)
    : path_(accepted(std::move(path), existing)), folder_(folder_of(path_)) {
  switch (existing) {
    case Existing::refuse:
      refuse_existing(path_);  // the run that we waited for may have made it
      if (!folder_.files().empty()) {
        throw UsageError(fmt::format(
            "--output {}: {} holds finished cases of a run that did not end: give --resume to "
            "keep them, --force to drop them, or 'paceline merge {}' to make a file of them",
            path_.string(), folder_.path().string(), path_.string()));
      }
      break;
    case Existing::replace:
      for (const fs::path& file : folder_.files()) remove_file(file);
      remove_file(path_);
      break;
    case Existing::resume:
      if (fs::exists(path_)) split(path_, folder_.path());
      break;
  }
}

fs::path ResultFile::case_path(const std::string& id) const {
  return folder_.path() / (id + ".h5");
}

bool ResultFile::has(const std::string& id, const Case& factors) const {
  const fs::path path = case_path(id);
  if (!fs::exists(path)) return false;
  try {
    const hdf5::File file = open_result_file(path);
    return by_name(read_factors(file.group("cases").group(id))) == by_name(factors);
  } catch (const Hdf5Error&) {
    return false;
  } catch (const UsageError&) {
    return false;  // not readable: it is measured anew
  }
}

void ResultFile::write(const CaseRecord& record, const RunInfo& run) {
  if (record.status == Status::stopped) {
    throw InternalError(fmt::format("case '{}' did not end and is not to be kept", record.id));
  }
  const fs::path path = case_path(record.id);
  write_whole(path, temporary_for(path),
              [&](const fs::path& to) { write_case_file(to, record, run); });
}

void ResultFile::merge(const std::vector<std::string>& ids, bool complete) {
  merge_folder(path_, folder_, ids, complete);
}

void merge_after_crash(const fs::path& path) {
  const fs::path checked_path = checked(path);
  if (case_files(folder_of(checked_path)).empty()) {
    throw UsageError(fmt::format("{} holds no finished case: there is nothing to merge{}",
                                 folder_of(checked_path).string(),
                                 fs::exists(checked_path) ? ", the file is whole" : ""));
  }
  LockedFolder folder(folder_of(checked_path));
  std::vector<std::string> ids;
  if (fs::exists(checked_path)) {
    split(checked_path, folder.path());
    ids = open_result_file(checked_path).group("cases").names();
  }
  merge_folder(checked_path, folder, ids, false);
}

std::vector<Column> read_summary(const fs::path& path) {
  const hdf5::File file = open_result_file(path);
  std::vector<Column> columns;
  try {
    columns = read_columns(file.group("summary"));
  } catch (const Hdf5Error& error) {
    throw UsageError(fmt::format("cannot read {}: {}", path.string(), error.what()));
  }
  for (const Column& column : columns) {
    if (length_of(column) != length_of(columns.front())) {
      throw UsageError(fmt::format("{}: the columns of /summary differ in length", path.string()));
    }
  }
  return columns;
}

}  // namespace paceline
