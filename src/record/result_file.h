#pragma once
// Where a sweep's results land. While it runs, each case is F.h5.cases/<id>.h5: written under a
// temporary name, closed, renamed, so that nothing finished is lost to kill -9 and no file needs
// repair. merge() makes F.h5 of them in the same way and removes the folder. Only rank 0 uses this.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/case_record.h"
#include "record/environment.h"
#include "record/locked_folder.h"

namespace paceline {

// Holds F.h5.cases and its lock from construction on.
class ResultFile {
 public:
  enum class Existing : std::uint8_t { refuse, resume, replace };

  // Makes the folder (and its parents) and takes the lock (flock on F.h5.cases/.lock), for which it
  // waits 10 s if another run holds it. Existing::refuse throws UsageError when F.h5 or finished
  // cases exist (naming --resume and --force); resume keeps finished cases, splitting an F.h5
  // back into case files, and sets aside what cannot be read (damaged()); replace deletes both.
  // Throws UsageError when the place cannot be written or the lock is not to be had, or the name
  // does not end in .h5. Leaves no folder behind when it throws, and none without a case when it is
  // destroyed.
  ResultFile(const std::filesystem::path& path, Existing existing);

  enum class Kept : std::uint8_t { finished, any };
  // A case of this id and these factors is there; finished: it is `ok` or `skipped`, since what ran
  // out of memory or failed a check is worth another try.
  [[nodiscard]] bool has(const std::string& id, const Case& factors,
                         Kept kept = Kept::finished) const;
  // The summary row of a case that has() found.
  [[nodiscard]] Row row(const std::string& id) const;
  // Those of these tables that it has.
  [[nodiscard]] std::vector<Table> tables(const std::string& id,
                                          std::span<const std::string_view> paths) const;
  // Throws StoppedError when it cannot be written (a full disk): it says where the case is instead,
  // in a folder for temporary files.
  void write(const CaseRecord& record, const RunInfo& run);
  // Writes F.h5 from all case files, in the order of `ids` and then by name; removes the folder.
  // Without a case there will be no F.h5. Throws StoppedError when it cannot be written, and keeps
  // the case files then. The last call: the lock is gone after it. `tables`: of the whole sweep.
  void merge(const std::vector<std::string>& ids, bool complete,
             const std::vector<Table>& tables = {});

  // The one that a symbolic link stands for.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Of cases that were set aside as F.h5.<id>.damaged, a line each.
  [[nodiscard]] const std::vector<std::string>& damaged() const { return damaged_; }

 private:
  [[nodiscard]] std::filesystem::path case_path(const std::string& id) const;

  std::filesystem::path path_;
  LockedFolder folder_;
  std::vector<std::string> damaged_;
};

// The experiment that a result file is of. Throws UsageError like read_summary().
[[nodiscard]] std::string experiment_of(const std::filesystem::path& path);

// `paceline merge F.h5`: what merge() does, after a crash; complete is false. Takes the lock like
// a run. An F.h5 that was being resumed keeps the cases that it had.
// Cases that cannot be read are set aside, as F.h5.<id>.damaged: a line for each. Throws UsageError
// when there is no F.h5.cases folder with a case in it.
[[nodiscard]] std::vector<std::string> merge_after_crash(const std::filesystem::path& path);

// The summary of a result file (merged or a case's), as columns of equal length.
// Throws UsageError when it cannot be read or is not a paceline file of a schema version that this
// reads.
[[nodiscard]] std::vector<Column> read_summary(const std::filesystem::path& path);

}  // namespace paceline
