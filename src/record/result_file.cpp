#include "record/result_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/whole_file.h"
#include "record/case_file.h"
#include "record/descriptions.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

constexpr const char* folder_lost = "the folder of its cases was removed or replaced meanwhile";

[[noreturn]] void throw_unwritable(const fs::path& path, const std::string& why,
                                   const std::string& then) {
  throw StoppedError(fmt::format("cannot write {}: {}; {}", path.string(), why, then));
}

// A name beside F.h5 that no file and no folder has, as close to F.h5.<id>.damaged as possible.
fs::path aside_name(const fs::path& path, const std::string& id) {
  for (int n = 1;; ++n) {
    const std::string end = n == 1 ? ".damaged" : fmt::format(".damaged.{}", n);
    std::string name = fmt::format("{}.{}", path.filename().string(), id);
    name.resize(std::min(name.size(), NAME_MAX - end.size()));
    fs::path aside = path.parent_path() / (name + end);
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(aside, ignored))) return aside;
  }
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

fs::path writable_path(const fs::path& path, ResultFile::Existing existing,
                       const std::string& experiment) {
  fs::path target = result_path(path, experiment.empty() ? "merge" : "--output");
  if (existing == ResultFile::Existing::refuse) refuse_existing(path);
  return target;
}

}  // namespace

ResultFile::ResultFile(const fs::path& path, Existing existing, const std::string& experiment)
    : path_(writable_path(path, existing, experiment)), folder_(cases_folder(path_)) {
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
    case Existing::resume: find_cases(experiment); break;
  }
}

void ResultFile::find_cases(const std::string& experiment) {
  std::string expected = experiment;
  const auto require_experiment = [&](const fs::path& path, const hdf5::File& file) {
    const std::string found = file.text_attribute("experiment");
    if (expected.empty()) expected = found;
    if (found == expected) return;
    throw UsageError(fmt::format("{}: {} has results of '{}', not of '{}'; {}",
                                 experiment.empty() ? "merge" : "--resume", path.string(), found,
                                 expected,
                                 experiment.empty() ? "move it away" : "name another --output"));
  };
  const auto keep = [&](const hdf5::File& file, const std::string& id, KeptCase kept) {
    const hdf5::Group group = file.group("cases").group(id);
    kept.status = group.text_attribute("status");
    newest_run_ = std::max(newest_run_, group.text_attribute("run"));
    cases_.insert_or_assign(id, std::move(kept));
  };
  if (fs::exists(path_)) {
    const hdf5::CrashReport report(path_.string());
    reading(path_, [&] {
      earlier_ = hdf5::File::open(path_);
      require_schema(*earlier_);
      require_described_types(*earlier_);
      require_experiment(path_, *earlier_);
      earlier_summary_ = read_summary(*earlier_);
      earlier_ids_ = case_names(*earlier_);
      earlier_fits_ = read_fits(*earlier_);
      for (const std::string& id : earlier_ids_) {
        require_mergeable(*earlier_, earlier_summary_, id);
        keep(*earlier_, id, {});
      }
    });
  }
  std::vector<fs::path> damaged;
  for (const fs::path& path : case_files(folder_.path())) {
    const std::string id = path.stem().string();
    const std::optional<std::string> bytes = unsealed(path);
    if (!bytes) {
      damaged.push_back(path);
      continue;
    }
    reading(path, [&] {
      const hdf5::File file = hdf5::File::of_image(*bytes);
      require_schema(file);
      require_experiment(path, file);
      file.group("cases").has(id) ? keep(file, id, {.status = {}, .digest = digest(*bytes)})
                                  : damaged.push_back(path);
    });
  }
  std::ranges::for_each(damaged, [&](const fs::path& path) { set_aside(path); });
}

void ResultFile::set_aside(const fs::path& file) {
  const fs::path aside = aside_name(path_, file.stem().string());
  std::error_code error;
  fs::rename(file, aside, error);
  if (error) {
    throw UsageError(fmt::format("{} is damaged and cannot be renamed to {}: {}", file.string(),
                                 aside.string(), error.message()));
  }
  damaged_.push_back(fmt::format("{} is damaged, or from an older version; it is now {}",
                                 file.string(), aside.string()));
}

fs::path ResultFile::case_path(const std::string& id) const {
  return folder_.path() / (id + ".h5");
}

template <class Read>
auto ResultFile::with_file_of(const std::string& id, const Read& read) const {
  if (!cases_.at(id).digest) {
    const hdf5::CrashReport report(path_.string());
    return reading(path_, [&] { return read(*earlier_, earlier_summary_); });
  }
  const fs::path path = case_path(id);
  const std::optional<std::string> bytes = unsealed(path);
  if (!bytes || digest(*bytes) != cases_.at(id).digest) {
    throw UsageError(fmt::format("{} was changed", path.string()));
  }
  return reading(path, [&] {
    const hdf5::File file = hdf5::File::of_image(*bytes);
    return read(file, read_summary(file));
  });
}

bool ResultFile::has(const std::string& id) const {
  const auto found = cases_.find(id);
  if (found == cases_.end()) return false;
  const std::string& status = found->second.status;
  return status == "ok" || status == "skipped";
}

Row ResultFile::read(const std::string& id) const {
  return with_file_of(id, [&](const hdf5::File& file, const std::vector<Column>& summary) {
    return row_of_case(file, summary, id);
  });
}

void ResultFile::write(const CaseRecord& record, const RunInfo& run) {
  const fs::path path = case_path(record.id);
  const hdf5::File file = case_file(record, run);
  const std::string_view image = file.image();
  const std::string bytes = sealed(image);
  std::string why = folder_lost;
  if (folder_.is_locked()) {
    const auto error = write_whole(path, temporary_in(folder_.path(), record.id), bytes);
    if (!error) {
      cases_[record.id] = {std::string(name_of(record.status)), digest(image)};
      if (std::exchange(replaces_, false)) {
        remove_file(path_);
        as_found_ = state_of(path_);
      }
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

std::vector<fs::path> ResultFile::copy_cases(MergedFile& merged,
                                             const std::vector<std::string>& ids) {
  std::vector<fs::path> files;
  std::size_t copied = 0;
  for (const std::string& id : ids) {
    const auto add = [&](const hdf5::File& file, const std::vector<Column>& summary) {
      merged.add(file, summary, id);
    };
    if (cases_.at(id).digest) {
      try {
        with_file_of(id, add);
        files.push_back(case_path(id));
        continue;
      } catch (const UsageError&) {
        lost_.push_back(id);
      }
    }
    if (std::ranges::find(earlier_ids_, id) == earlier_ids_.end()) continue;
    cases_.at(id).digest.reset();
    constexpr std::size_t most = 100;  // HDF5 holds 0.2 MB for each case until the file is closed
    if (++copied % most == 0) earlier_ = hdf5::File::open(path_);
    with_file_of(id, add);
  }
  return files;
}

std::string ResultFile::merge(const std::vector<std::string>& ids, bool complete,
                              const std::vector<Table>& tables) {
  const std::string folder = folder_.path().string();
  if (!folder_.is_locked()) {
    throw_unwritable(path_, folder_lost, fmt::format("cases that are left are in {}", folder));
  }
  std::vector<std::string> order = ids;
  order.insert(order.end(), earlier_ids_.begin(), earlier_ids_.end());
  std::set<std::string> found;
  for (const auto& [id, kept] : cases_) found.insert(id);
  std::erase_if(order, [&](const std::string& id) { return found.erase(id) == 0; });
  order.insert(order.end(), found.begin(), found.end());  // those outside the sweep, by name
  MergedFile merged;
  const std::vector<fs::path> files = copy_cases(merged, order);
  if (merged.size() > 0) {
    const hdf5::File whole =
        merged.finish(complete && lost_.empty(), with_earlier(tables, earlier_fits_));
    if (as_found_ && state_of(path_) != *as_found_) {
      throw_unwritable(
          path_, "another program has written it meanwhile",
          fmt::format("finished cases are in {}: move the other file away and give --resume",
                      folder));
    }
    if (const auto error =
            write_whole(path_, temporary_in(folder_.path(), "merged"), whole.image())) {
      throw_unwritable(
          path_, error.message(),
          "make room there: finished cases are kept, and --resume continues from them");
    }
  }
  folder_.remove(files);
  if (lost_.empty()) return "";
  return fmt::format(
      "{}.h5{} of {} was removed or changed while the sweep ran; --resume measures it again",
      lost_.front(), lost_.size() == 1 ? "" : fmt::format(" (and {} more)", lost_.size() - 1),
      folder);
}

MergedCases merge_after_crash(const fs::path& path) {
  const fs::path cases = cases_folder(result_path(path, "merge"));  // F.h5 need not exist
  if (case_files(cases).empty()) {
    throw UsageError(fmt::format("{} {}: there is nothing to merge", cases.string(),
                                 fs::exists(cases) ? "holds no finished case" : "does not exist"));
  }
  ResultFile results(path, ResultFile::Existing::resume, "");
  MergedCases merged{.count = results.size(), .warnings = results.damaged()};
  if (const std::string lost = results.merge({}, false); !lost.empty()) {
    merged.warnings.push_back(lost);
  }
  return merged;
}

}  // namespace paceline
