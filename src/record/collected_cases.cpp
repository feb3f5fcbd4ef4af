#include "record/collected_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/non_copyable.h"
#include "record/case_file.h"
#include "record/fits.h"
#include "record/locked_folder.h"
#include "record/split_file.h"
#include "record/untrusted_file.h"
#include "record/whole_file.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

// The names of the parts of files that are split in a folder; removes the parts that are left.
class Scratch : NonCopyable {
 public:
  explicit Scratch(fs::path folder) : folder_(std::move(folder)) {}
  ~Scratch() { remove_temporaries(folder_); }
  // What precedes the parts of the next file; see split().
  [[nodiscard]] fs::path next() {
    return temporary_in(folder_, fmt::format("{}-", count_++)).replace_extension();
  }

 private:
  fs::path folder_;
  int count_ = 0;
};

// A file and the copies of its cases, which are safe to open.
struct Parts {
  fs::path file;
  fs::path before;
  std::vector<std::string> ids;
  std::string damage;  // why it could not be split; empty if it was

  [[nodiscard]] fs::path part(const std::string& id) const { return part_of(before, id); }
  [[nodiscard]] std::string experiment() const { return experiment_of(part(ids.front())); }
  [[nodiscard]] std::string newest_run() const {
    return hdf5::File::open(part("")).text_attribute("run");
  }
};

Parts parts_of(const fs::path& file, Scratch& scratch) {
  Parts parts{file, scratch.next(), {}, {}};
  try {
    parts.ids = split_untrusted(file, parts.before);
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

// Replaces case files by their parts. Renames those for which that is impossible, and returns a
// line for each of these.
std::vector<std::string> set_aside_damaged(const fs::path& path, const std::vector<Parts>& files) {
  std::vector<std::string> lines;
  for (const Parts& parts : files) {
    const std::string why = replace_by(parts);
    if (why.empty()) continue;
    const fs::path aside = aside_name(path, parts.file.stem().string());
    fs::rename(parts.file, aside);
    lines.push_back(fmt::format("{}; it is now {}", why, aside.string()));
  }
  return lines;
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

}  // namespace

CollectedCases collect_case_files(const fs::path& path, const fs::path& folder,
                                  const std::string& experiment) {
  Scratch scratch(folder);
  std::vector<Parts> files;
  for (const fs::path& file : case_files(folder)) files.push_back(parts_of(file, scratch));
  std::vector<NamedExperiment> all;
  CollectedCases found;
  const auto add = [&](const Parts& parts) {
    if (parts.ids.empty()) return;
    all.push_back({parts.file, parts.experiment()});
    found.newest_run = std::max(found.newest_run, parts.newest_run());
  };
  std::ranges::for_each(files, add);
  Parts whole{path, scratch.next(), {}, {}};
  if (fs::exists(path)) {
    whole.ids = found.ids = split_untrusted(path, whole.before);
    found.fits = reading(path, [&] { return read_fits(whole.part("")); });
    add(whole);
  }
  require_experiment(path, all, experiment);
  require_one_experiment(all);
  found.damaged = set_aside_damaged(path, files);
  for (const std::string& id : whole.ids) {
    const fs::path target = folder / (id + ".h5");
    if (!fs::exists(target)) fs::rename(whole.part(id), target);
  }
  return found;
}

}  // namespace paceline
