#pragma once
// A result file as `compare` reads it: of every case its factors and the seconds of every
// repetition, checked against the file's own summary.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "measure/case.h"
#include "record/case_record.h"
#include "record/text_table.h"

namespace paceline {

// What tells cases apart: their factors as text, sorted by name, but not those that say how often
// was measured; on any machine not those that follow from it either.
struct CaseKey {
  FactorTexts factors;
  std::size_t earlier = 0;  // cases of the same factors before it in the file (other seeds)

  [[nodiscard]] bool operator==(const CaseKey&) const = default;
};

// All factors of a case as text.
[[nodiscard]] FactorTexts texts_of(const Case& factors);

struct FileCase {
  CaseKey key;
  Case factors;  // all of them
  Row summary;   // its row
  std::string status;
  std::string reason;
  // Of the headline phase: the maximum over ranks of each repetition. Empty where nothing was
  // measured.
  std::vector<double> seconds;

  [[nodiscard]] bool ok() const { return status == "ok"; }
};

struct ComparedFile {
  std::filesystem::path path;
  std::string experiment;
  std::vector<std::string> devices;  // of every rank, sorted
  std::vector<std::string> cpus;
  std::vector<FileCase> cases;  // in the order of the summary

  // Null where there is none.
  [[nodiscard]] const FileCase* find(const CaseKey& key) const;
};

// Throws UsageError for a file that cannot be read and for one whose summary is not that of its
// samples.
[[nodiscard]] ComparedFile read_compared_file(const std::filesystem::path& path, bool any_machine);

}  // namespace paceline
