#pragma once
// A result file as `compare` reads it: the factors of every case and the seconds of every
// repetition, checked against the file's summary.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "measure/case.h"
#include "record/case_record.h"
#include "record/text_table.h"

namespace paceline {

// The identity of a case: its factors as text, sorted by name, without the seed, and without those
// that set the number of repetitions or, with any_machine, follow from the machine, unless cases of
// one file differ in nothing else.
struct CaseKey {
  FactorTexts factors;
  std::size_t earlier = 0;  // cases before it in the file with the same factors, of other seeds

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
  // Of the headline phase: the maximum over ranks of each repetition. Empty if nothing was
  // measured.
  std::vector<double> seconds;

  [[nodiscard]] bool ok() const { return status == "ok"; }
};

struct ComparedFile {
  std::filesystem::path path;
  std::string experiment;
  std::vector<std::string> devices;  // one per rank, sorted
  std::vector<std::string> cpus;
  std::vector<FileCase> cases;  // in the order of the summary

  // Null if there is none.
  [[nodiscard]] const FileCase* find(const CaseKey& key) const;
};

// The keys are not set. Throws UsageError for a file that cannot be read or whose summary
// contradicts its samples.
[[nodiscard]] ComparedFile read_compared_file(const std::filesystem::path& path);

// Sets the keys of all cases.
void set_keys(std::vector<ComparedFile>& a, std::vector<ComparedFile>& b, bool any_machine);

}  // namespace paceline
