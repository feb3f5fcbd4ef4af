#include "record/result_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "record/case_file.h"
#include "record/collected_cases.h"
#include "record/console.h"
#include "record/fits.h"
#include "record/result_path.h"
#include "record/whole_file.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& path) { return path.string() + ".cases"; }

[[noreturn]] void throw_unwritable(const fs::path& path, const std::error_code& error,
                                   const std::string& then) {
  throw StoppedError(fmt::format("cannot write {}: {}; {}", path.string(), error.message(), then));
}

// The files in the order of `ids`, followed by the others, by name.
std::vector<fs::path> ordered(std::vector<fs::path> files, const std::vector<std::string>& ids) {
  const auto place = [&](const fs::path& file) {
    return std::find(ids.begin(), ids.end(), file.stem().string()) - ids.begin();
  };
  std::stable_sort(files.begin(), files.end(),
                   [&](const fs::path& a, const fs::path& b) { return place(a) < place(b); });
  return files;
}

void merge_folder(const fs::path& path, LockedFolder& folder, const std::vector<std::string>& ids,
                  bool complete, const std::vector<Table>& tables) {
  const std::vector<fs::path> files = ordered(case_files(folder.path()), ids);
  if (!files.empty()) {
    const hdf5::File merged = merged_file(files, complete, tables);
    if (const auto error = write_whole(path, folder.path() / "merged.tmp", merged.image())) {
      throw_unwritable(
          path, error,
          "make room there: finished cases are kept, and --resume continues from them");
    }
    flush_folder(path.parent_path());  // before the case files are removed
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

void refuse_existing(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  throw UsageError(fmt::format(
      "--output {} exists: give --resume to keep its finished cases, --force to replace it, or "
      "name another file",
      path.string()));
}

fs::path writable_path(const fs::path& path, ResultFile::Existing existing) {
  fs::path target = result_path(path, "--output");
  if (existing == ResultFile::Existing::refuse) refuse_existing(path);
  return target;
}

}  // namespace

ResultFile::ResultFile(const fs::path& path, Existing existing, const std::string& experiment)
    : path_(writable_path(path, existing)), folder_(folder_of(path_)) {
  const std::vector<fs::path> cases = case_files(folder_.path());
  switch (existing) {
    case Existing::refuse:
      refuse_existing(path_);  // the run that held the lock may have written it
      if (!cases.empty()) {
        throw UsageError(fmt::format(
            "--output {}: {} holds finished cases of a run that did not end: give --resume to "
            "keep them, --force to drop them, or 'paceline merge {}' to make a file of them",
            path_.string(), folder_.path().string(), path_.string()));
      }
      break;
    case Existing::replace:
      for (const fs::path& file : cases) remove_file(file);
      replaces_ = fs::exists(path_);
      break;
    case Existing::resume: {
      CollectedCases found = collect_case_files(path_, folder_.path(), experiment);
      damaged_ = std::move(found.damaged);
      fits_ = std::move(found.fits);
      break;
    }
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
    return false;  // not readable: the case is measured again
  }
}

Row ResultFile::row(const std::string& id) const {
  const fs::path path = case_path(id);
  Row row = row_of(read_summary(path), 0);
  const Case factors = read_factors(open_result_file(path), id);  // with flags as such
  for (Cell& cell : row) {
    if (factors.has(cell.name)) cell.value = factors.at(cell.name);
  }
  return row;
}

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
    throw InternalError(fmt::format("case '{}' is unfinished and cannot be written", record.id));
  }
  const fs::path path = case_path(record.id);
  const hdf5::File file = case_file(record, run);
  const std::error_code error = write_whole(path, path.string() + ".tmp", file.image());
  if (!error) {
    if (std::exchange(replaces_, false)) remove_file(path_);
    return;
  }
  const fs::path elsewhere = write_elsewhere(path.filename(), file.image());
  throw_unwritable(
      path, error,
      elsewhere.empty()
          ? fmt::format(
                "no temporary folder can be written either; all that is left of the case: {}",
                json_line(summary_row(record)))
          : fmt::format("the case is in {}: make room, move it to {}/ and give --resume",
                        elsewhere.string(), folder_.path().string()));
}

void ResultFile::merge(const std::vector<std::string>& ids, bool complete,
                       const std::vector<Table>& tables) {
  merge_folder(path_, folder_, ids, complete, with_earlier(tables, fits_));
}

std::vector<std::string> merge_after_crash(const fs::path& path) {
  const fs::path file = result_path(path, "merge");  // F.h5 need not exist
  const fs::path cases = folder_of(file);
  if (case_files(cases).empty()) {
    throw UsageError(fmt::format("{} {}: there is nothing to merge", cases.string(),
                                 fs::exists(cases) ? "holds no finished case" : "does not exist"));
  }
  LockedFolder folder(cases);
  const CollectedCases found = collect_case_files(file, folder.path(), "");
  merge_folder(file, folder, found.ids, false, found.fits);
  return found.damaged;
}

void require_merged(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) || case_files(folder_of(path)).empty()) return;
  throw UsageError(
      fmt::format("{} does not exist, but {} holds finished cases of a run that did "
                  "not end: make it with paceline merge {}",
                  path.string(), folder_of(path).string(), path.string()));
}

}  // namespace paceline
