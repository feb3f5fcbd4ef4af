#include "record/result_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "record/case_file.h"
#include "record/collected_cases.h"
#include "record/fits.h"
#include "record/whole_file.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

constexpr const char* folder_lost = "the folder of its cases was removed or replaced meanwhile";

[[noreturn]] void throw_unwritable(const fs::path& path, const std::string& why,
                                   const std::string& then) {
  throw StoppedError(fmt::format("cannot write {}: {}; {}", path.string(), why, then));
}

// The files in the order of `ids`, followed by the others, by name.
std::vector<fs::path> ordered(std::vector<fs::path> files, const std::vector<std::string>& ids) {
  std::map<std::string, std::size_t> places;
  for (const std::string& id : ids) places.emplace(id, places.size());
  const auto place = [&](const fs::path& file) {
    const auto found = places.find(file.stem().string());
    return found == places.end() ? places.size() : found->second;
  };
  std::stable_sort(files.begin(), files.end(),
                   [&](const fs::path& a, const fs::path& b) { return place(a) < place(b); });
  return files;
}

// F.h5 is not replaced if it is no longer `as_found`; nullopt: it may be another one.
void merge_files(const fs::path& path, const std::optional<FileState>& as_found,
                 LockedFolder& folder, const std::vector<fs::path>& files, bool complete,
                 const std::vector<Table>& tables) {
  if (!files.empty()) {
    const hdf5::File merged = merged_file(files, complete, tables);
    if (as_found && state_of(path) != *as_found) {
      throw_unwritable(
          path, "another program has written it meanwhile",
          fmt::format("finished cases are in {}: move the other file away and give --resume",
                      folder.path().string()));
    }
    if (const auto error =
            write_whole(path, temporary_in(folder.path(), "merged"), merged.image())) {
      throw_unwritable(
          path, error.message(),
          "make room there: finished cases are kept, and --resume continues from them");
    }
  }
  folder.remove(files);
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
    : path_(writable_path(path, existing)), folder_(cases_folder(path_)) {
  if (existing != Existing::replace) as_found_ = state_of(path_);
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
      for (const fs::path& file : cases) {
        if (ends_in_case_hash(file.stem().string())) remove_file(file);
      }
      replaces_ = fs::exists(path_);
      break;
    case Existing::resume: {
      CollectedCases found = collect_case_files(path_, folder_.path(), experiment);
      damaged_ = std::move(found.damaged);
      newest_run_ = std::move(found.newest_run);
      fits_ = std::move(found.fits);
      for (const fs::path& file : case_files(folder_.path())) {
        sizes_.emplace(file.stem().string(), fs::file_size(file));
      }
      break;
    }
  }
}

fs::path ResultFile::case_path(const std::string& id) const {
  return folder_.path() / (id + ".h5");
}

bool ResultFile::has(const std::string& id, const Case& factors, Kept kept) const {
  if (!sizes_.contains(id)) return false;
  try {
    const hdf5::File file = open_result_file(case_path(id));
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
      if (!group.has(table)) continue;
      tables.push_back({table, read_columns(group.group(table), Inner::left_out)});
      require_equal_lengths(tables.back().columns, table);
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
  const std::string_view bytes = file.image();
  std::string why = folder_lost;
  if (folder_.is_locked()) {
    const auto error = write_whole(path, temporary_in(folder_.path(), record.id), bytes);
    if (!error) {
      sizes_[record.id] = bytes.size();
      if (std::exchange(replaces_, false)) remove_file(path_);
      return;
    }
    why = error.message();
  }
  const fs::path elsewhere = write_elsewhere(path.filename(), bytes);
  throw_unwritable(
      path, why,
      elsewhere.empty()
          ? fmt::format(
                "no temporary folder can be written either; all that is left of the case: {}",
                json_line(summary_row(record)))
          : fmt::format("the case is in {}: {}move it to {}/ and give --resume", elsewhere.string(),
                        why == folder_lost ? "" : "make room, ", folder_.path().string()));
}

std::string ResultFile::merge(const std::vector<std::string>& ids, bool complete,
                              const std::vector<Table>& tables) {
  const std::string folder = folder_.path().string();
  if (!folder_.is_locked()) {
    throw_unwritable(path_, folder_lost, fmt::format("cases that are left are in {}", folder));
  }
  std::vector<fs::path> files;
  std::vector<std::string> lost;
  for (const auto& [id, size] : sizes_) {
    std::error_code gone;
    const bool intact = fs::file_size(case_path(id), gone) == size;
    intact ? files.push_back(case_path(id)) : lost.push_back(id);
  }
  std::string why;
  if (!lost.empty()) {
    why =
        fmt::format("{}.h5{} of {} was removed or changed while the sweep ran", lost.front(),
                    lost.size() == 1 ? "" : fmt::format(" (and {} more)", lost.size() - 1), folder);
    // F.h5 may be all that is left of these cases.
    if (fs::exists(path_))
      throw_unwritable(path_, why, fmt::format("--resume continues from it and {}", folder));
  }
  merge_files(path_, as_found_, folder_, ordered(files, ids), complete && lost.empty(),
              with_earlier(tables, fits_));
  return lost.empty() ? "" : why + "; --resume measures it again";
}

std::vector<std::string> merge_after_crash(const fs::path& path) {
  const fs::path file = result_path(path, "merge");  // F.h5 need not exist
  const fs::path cases = cases_folder(file);
  if (case_files(cases).empty()) {
    throw UsageError(fmt::format("{} {}: there is nothing to merge", cases.string(),
                                 fs::exists(cases) ? "holds no finished case" : "does not exist"));
  }
  LockedFolder folder(cases);
  const FileState as_found = state_of(file);
  const CollectedCases found = collect_case_files(file, folder.path(), "");
  merge_files(file, as_found, folder, ordered(case_files(folder.path()), found.ids), false,
              found.fits);
  return found.damaged;
}

}  // namespace paceline
