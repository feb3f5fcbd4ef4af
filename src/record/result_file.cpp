#include "record/result_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/non_copyable.h"
#include "record/case_file.h"
#include "record/console.h"
#include "record/split_file.h"
#include "record/untrusted_file.h"
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

// Where files are split, each into a folder of its own; removed with its contents.
class SplitFolder : NonCopyable {
 public:
  explicit SplitFolder(fs::path folder) : folder_(std::move(folder)) {}
  ~SplitFolder() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  [[nodiscard]] fs::path next() { return folder_ / std::to_string(count_++); }

 private:
  fs::path folder_;
  int count_ = 0;
};

// A file and the copies of its cases, which are safe to open.
struct Parts {
  fs::path file;
  fs::path folder;
  std::vector<std::string> ids;
  std::string damage;  // why it could not be split; empty if it was

  [[nodiscard]] fs::path part(const std::string& id) const { return folder / (id + ".h5"); }
  [[nodiscard]] std::string experiment() const { return experiment_of(part(ids.front())); }
};

// Throws OlderSchemaError.
Parts parts_of(const fs::path& file, SplitFolder& scratch) {
  Parts parts{file, scratch.next(), {}, {}};
  try {
    parts.ids = split_untrusted(file, parts.folder);
  } catch (const OlderSchemaError&) {
    throw;
  } catch (const UsageError& error) {
    parts.damage = error.what();
  }
  return parts;
}

// Replaces the case file by its parts, named after their cases. Returns the reason if that is
// impossible, else an empty text.
std::string replace_by(const Parts& parts) {
  if (!parts.damage.empty()) return parts.damage;
  const fs::path& file = parts.file;
  const auto target = [&](const std::string& id) { return file.parent_path() / (id + ".h5"); };
  for (const std::string& id : parts.ids) {
    if (target(id) != file && fs::exists(target(id))) {
      return fmt::format("{} has a case that {} has too", file.string(), target(id).string());
    }
  }
  for (const std::string& id : parts.ids) fs::rename(parts.part(id), target(id));
  if (std::ranges::find(parts.ids, file.stem().string()) == parts.ids.end()) fs::remove(file);
  return "";
}

// Replaces case files by their parts. Renames those for which that is impossible, and returns a
// line for each of these.
std::vector<std::string> set_aside_damaged(const fs::path& path, const std::vector<Parts>& files) {
  std::vector<std::string> lines;
  for (const Parts& parts : files) {
    const std::string why = replace_by(parts);
    if (why.empty()) continue;
    const fs::path aside = fmt::format("{}.{}.damaged", path.string(), parts.file.stem().string());
    fs::rename(parts.file, aside);
    lines.push_back(fmt::format("{}; it is now {}", why, aside.string()));
  }
  return lines;
}

// The results that --resume and merge find.
struct Found {
  std::vector<std::string> damaged;  // a line for each case file that was set aside
  std::vector<std::string> ids;      // the cases of F.h5, in its order
  std::vector<Table> fits;           // of F.h5
};

std::vector<Table> read_fits(const fs::path& path) {
  const hdf5::File file = hdf5::File::open(path);
  std::vector<Table> fits;
  for (const char* table : fitted_tables) {
    if (!file.has(table)) continue;
    std::vector<Column> columns = read_columns(file.group(table));
    if (columns.empty()) continue;
    require_equal_lengths(columns, table);
    fits.push_back({table, std::move(columns)});
  }
  return fits;
}

// A row's texts and integers, which say what was fitted.
Row key_of(Row row) {
  std::erase_if(row, [](const Cell& cell) { return std::holds_alternative<double>(cell.value); });
  return row;
}

std::vector<Column> selected(std::vector<Column> columns, const std::vector<std::size_t>& rows) {
  for (Column& column : columns) {
    std::visit(
        [&](auto& data) {
          std::decay_t<decltype(data)> chosen;
          for (const std::size_t row : rows) chosen.push_back(data[row]);
          data = std::move(chosen);
        },
        column.data);
  }
  return columns;
}

// Adds to the table those rows of an earlier one that it does not replace.
void add_earlier(Table& table, const Table& earlier) {
  std::set<std::string> replaced;
  for (std::size_t i = 0; !table.columns.empty() && i < length_of(table.columns.front()); ++i) {
    replaced.insert(json_line(key_of(row_of(table.columns, i))));
  }
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < length_of(earlier.columns.front()); ++i) {
    if (!replaced.contains(json_line(key_of(row_of(earlier.columns, i))))) kept.push_back(i);
  }
  if (kept.empty()) return;
  std::vector<Column> columns = selected(earlier.columns, kept);
  table.columns =
      table.columns.empty() ? std::move(columns) : concatenate({std::move(columns), table.columns});
}

// `tables` with the fits of earlier launches.
std::vector<Table> with_earlier(std::vector<Table> tables, const std::vector<Table>& fits) {
  for (const Table& earlier : fits) {
    const auto same = [&](const Table& table) { return table.path == earlier.path; };
    auto table = std::find_if(tables.begin(), tables.end(), same);
    if (table == tables.end()) table = tables.insert(tables.end(), {earlier.path, {}});
    add_earlier(*table, earlier);
  }
  return tables;
}

struct NamedExperiment {
  fs::path file;
  std::string experiment;
};

void require_one_experiment(const std::vector<NamedExperiment>& all) {
  for (const NamedExperiment& one : all) {
    const NamedExperiment& first = all.front();
    if (one.experiment == first.experiment) continue;
    throw UsageError(fmt::format("{} has results of '{}' and {} of '{}': move one of them away",
                                 first.file.string(), first.experiment, one.file.string(),
                                 one.experiment));
  }
}

// --resume adds cases of `experiment`, merge none.
void require_experiment(const fs::path& path, const std::vector<NamedExperiment>& all,
                        const std::string& experiment) {
  for (const NamedExperiment& one : all) {
    if (experiment.empty() || one.experiment == experiment) continue;
    throw UsageError(
        fmt::format("--resume: {} has results of '{}', not of '{}'; name another --output",
                    path.string(), one.experiment, experiment));
  }
}

// Afterwards the folder has only case files that are safe to open, including those from splitting
// an existing F.h5. Case files that already exist are newer than F.h5's and are kept. If it throws,
// all files are as before.
Found collect_case_files(const fs::path& path, const fs::path& folder,
                         const std::string& experiment) {
  SplitFolder scratch(folder / "split.tmp");
  std::vector<Parts> files;
  for (const fs::path& file : case_files(folder)) files.push_back(parts_of(file, scratch));
  std::vector<NamedExperiment> all;
  for (const Parts& parts : files) {
    if (!parts.ids.empty()) all.push_back({parts.file, parts.experiment()});
  }
  Found found;
  Parts whole{path, scratch.next(), {}, {}};
  if (fs::exists(path)) {
    whole.ids = found.ids = split_untrusted(path, whole.folder);
    found.fits = reading(path, [&] { return read_fits(whole.folder / "fits"); });
  }
  if (!whole.ids.empty()) all.push_back({path, whole.experiment()});
  require_experiment(path, all, experiment);
  require_one_experiment(all);
  found.damaged = set_aside_damaged(path, files);
  for (const std::string& id : whole.ids) {
    const fs::path target = folder / (id + ".h5");
    if (!fs::exists(target)) fs::rename(whole.part(id), target);
  }
  return found;
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

// The path with symbolic links resolved; throws if it cannot be a result file. Creates nothing.
fs::path checked(const fs::path& path, ResultFile::Existing existing) {
  if (path.extension() != ".h5") {
    throw UsageError(fmt::format("--output {}: the name must end in .h5", path.string()));
  }
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  if (fs::is_directory(status)) {
    throw UsageError(fmt::format("--output {} is a folder: name a file, such as {}", path.string(),
                                 (path / "results.h5").string()));
  }
  if (status.type() != fs::file_type::not_found && !fs::is_regular_file(status)) {
    throw UsageError(fmt::format("--output {}: {}; name another file", path.string(),
                                 unknown ? unknown.message() : "is a device or a pipe"));
  }
  if (existing == ResultFile::Existing::refuse) refuse_existing(path);
  fs::path target = target_of(path);
  // The cases' files are in a folder beside it.
  constexpr std::size_t most = PATH_MAX - NAME_MAX - std::string_view(".cases/").size();
  if (target.native().size() >= most) {
    throw UsageError(fmt::format("--output has {} characters with its folders; use fewer than {}",
                                 target.native().size(), most));
  }
  return target;
}

}  // namespace

ResultFile::ResultFile(const fs::path& path, Existing existing, const std::string& experiment)
    : path_(checked(path, existing)), folder_(folder_of(path_)) {
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
      Found found = collect_case_files(path_, folder_.path(), experiment);
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
  // F.h5 need not exist.
  const fs::path file = checked(path, ResultFile::Existing::resume);
  const fs::path cases = folder_of(file);
  if (case_files(cases).empty()) {
    throw UsageError(fmt::format("{} {}: there is nothing to merge", cases.string(),
                                 fs::exists(cases) ? "holds no finished case" : "does not exist"));
  }
  LockedFolder folder(cases);
  const Found found = collect_case_files(file, folder.path(), "");
  merge_folder(file, folder, found.ids, false, found.fits);
  return found.damaged;
}

}  // namespace paceline
