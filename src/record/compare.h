#pragma once
// `paceline compare A.h5 B.h5 ...`: case by case, is B faster or slower than A?

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "measure/case.h"
#include "measure/run_ratio.h"
#include "record/compared_file.h"
#include "record/reference.h"

namespace paceline {

struct CompareOptions {
  std::vector<std::filesystem::path> files;  // A1 B1 A2 B2 ...
  bool any_machine = false;
  double threshold = 0.02;  // a ratio of at most 1 + threshold, or its inverse, is no difference
  std::string reference;    // a TOML file that B is held to; "": none
};

// The runs of one case on one side.
struct ComparedSide {
  std::string status;
  std::string reason;
  double median = 0;  // seconds, of the runs' medians; NaN where nothing was measured
  std::size_t repetitions = 0;
};

struct ComparedCase {
  FactorTexts key;
  Case factors;         // of a run of B
  std::string verdict;  // faster, slower, same, undecided, no longer ok, ok now, not ok
  ComparedSide a;
  ComparedSide b;
  RunRatio ratio;
  std::size_t pairs = 0;  // that the ratio is of

  [[nodiscard]] bool measured() const { return pairs > 0; }
  [[nodiscard]] bool regression() const { return verdict == "slower" || verdict == "no longer ok"; }
};

// A case that cannot be compared.
struct UnmatchedCase {
  FactorTexts key;
  Case factors;
};

struct Comparison {
  std::vector<std::filesystem::path> a;
  std::vector<std::filesystem::path> b;
  std::vector<ComparedCase> cases;     // in B's order
  std::vector<UnmatchedCase> only_a;   // cases that no file of B has
  std::vector<UnmatchedCase> only_b;   // likewise
  std::vector<UnmatchedCase> no_pair;  // cases of both sides, but of no pair of files
  std::vector<ReferenceResult> references;

  [[nodiscard]] bool regression() const;
};

// Cases are matched by CaseKey, and judged by ratio_of_runs() and verdict_of() over the pairs of
// files in which they are ok on both sides. Throws UsageError when a file cannot be read or its
// summary is not that of its samples, when files are not in pairs or stand twice, when no case
// matches, and, unless any_machine, when device models, rank counts or hosts' CPU models differ.
[[nodiscard]] Comparison compare_files(const CompareOptions& options);

}  // namespace paceline
