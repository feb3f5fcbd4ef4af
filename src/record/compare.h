#pragma once
// `paceline compare A.h5 B.h5 ...`: for each case, whether B is faster or slower than A.

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
  double threshold = 0.02;  // ratios from 1 / (1 + threshold) to 1 + threshold are no difference
  std::string reference;    // a TOML file of values that B must reach; "": none
};

// The runs of one case on one side.
struct ComparedSide {
  std::string status;
  std::string reason;
  double median = 0;  // seconds: the median of the runs' medians; NaN if nothing was measured
  std::size_t repetitions = 0;
};

struct ComparedCase {
  FactorTexts key;
  Case factors;         // of a run of B
  std::string verdict;  // faster, slower, same, undecided, no longer ok, ok now, not ok
  ComparedSide a;
  ComparedSide b;
  RunRatio ratio;
  std::size_t pairs = 0;  // pairs of files behind the ratio

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
  std::vector<UnmatchedCase> only_b;   // cases that no file of A has
  std::vector<UnmatchedCase> no_pair;  // cases of both sides, but never in both files of a pair
  std::vector<ReferenceResult> references;

  [[nodiscard]] bool regression() const;
};

// Cases are matched by CaseKey and judged by ratio_of_runs() and verdict_of(), over the pairs of
// files in which both are ok. Throws UsageError if a file cannot be read or its summary contradicts
// its samples, if files are not in pairs or are repeated, if no case matches, and, unless
// any_machine, if device models, rank counts or the hosts' CPU models differ.
[[nodiscard]] Comparison compare_files(const CompareOptions& options);

}  // namespace paceline
