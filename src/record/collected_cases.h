#pragma once
// What --resume and merge find of earlier launches: F.h5 and the case files beside it, any of which
// may be damaged.

#include <filesystem>
#include <string>
#include <vector>

#include "record/case_record.h"

namespace paceline {

struct CollectedCases {
  std::vector<std::string> damaged;  // a line for each case file that was set aside
  std::vector<std::string> ids;      // the cases of F.h5, in its order
  std::vector<Table> fits;           // of F.h5
  std::string newest_run;            // of all files; empty if there is none
};

// Afterwards the folder has only case files that are safe to open, including those from splitting
// an existing F.h5. Case files that already exist are newer than F.h5's and are kept. Those that
// cannot be read become F.h5.<id>.damaged, or .damaged.2 if that exists, and so on. `experiment`:
// to which --resume adds cases; empty for merge. If it throws, all files are as before. Throws
// UsageError if F.h5 cannot be read or if the cases are not all of one experiment.
[[nodiscard]] CollectedCases collect_case_files(const std::filesystem::path& path,
                                                const std::filesystem::path& folder,
                                                const std::string& experiment);

}  // namespace paceline
