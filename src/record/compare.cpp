#include "record/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

using Files = std::vector<ComparedFile>;
// The runs of one case in a pair of files.
using CasePair = std::pair<const FileCase*, const FileCase*>;

void require_pairs(const std::vector<std::filesystem::path>& files) {
  if (files.size() < 2 || files.size() % 2 != 0) {
    throw UsageError(fmt::format(
        "files: needs 2, A.h5 B.h5, or more in pairs, A1.h5 B1.h5 A2.h5 B2.h5; {} given",
        files.size()));
  }
  if (files.size() == 2) return;
  for (auto file = files.begin(); file != files.end(); ++file) {
    const auto same = std::find_if(file + 1, files.end(), [&](const auto& other) {
      std::error_code unreadable;  // reported when the file is read
      return std::filesystem::equivalent(*file, other, unreadable);
    });
    if (same == files.end()) continue;
    throw UsageError(fmt::format("{} is given twice: each pair needs two files of different runs",
                                 same->string()));
  }
}

std::string listed(std::vector<std::string> texts) {
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return fmt::format("{}", fmt::join(texts, ", "));
}

void require_alike(const ComparedFile& a, const ComparedFile& b, bool any_machine) {
  if (a.experiment != b.experiment) {
    throw UsageError(fmt::format("{} holds results of '{}', {} of '{}': nothing to compare",
                                 a.path.string(), a.experiment, b.path.string(), b.experiment));
  }
  if (any_machine) return;
  const auto refuse = [&](const char* what, const std::string& of_a, const std::string& of_b) {
    throw UsageError(
        fmt::format("{} differ: {} in {}, {} in {}; --any-machine compares them anyway", what, of_a,
                    a.path.string(), of_b, b.path.string()));
  };
  if (a.devices.size() != b.devices.size()) {
    refuse("rank counts", std::to_string(a.devices.size()), std::to_string(b.devices.size()));
  }
  if (a.devices != b.devices) refuse("devices", listed(a.devices), listed(b.devices));
  if (a.cpus != b.cpus) refuse("the hosts' CPUs", listed(a.cpus), listed(b.cpus));
}

// Every case of the files, in the order of first occurrence.
std::vector<CaseKey> keys_of(const Files& files) {
  std::vector<CaseKey> keys;
  for (const ComparedFile& file : files) {
    for (const FileCase& one : file.cases) {
      if (std::find(keys.begin(), keys.end(), one.key) == keys.end()) keys.push_back(one.key);
    }
  }
  return keys;
}

bool any_has(const Files& files, const CaseKey& key) {
  return std::any_of(files.begin(), files.end(),
                     [&](const ComparedFile& file) { return file.find(key) != nullptr; });
}

// For a case that at least one of the files has.
UnmatchedCase unmatched(const Files& files, const CaseKey& key) {
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const ComparedFile& f) { return f.find(key) != nullptr; });
  return {.key = key.factors, .factors = file->find(key)->factors};
}

std::vector<CasePair> pairs_of(const Files& a, const Files& b, const CaseKey& key) {
  std::vector<CasePair> pairs;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const CasePair pair = {a[i].find(key), b[i].find(key)};
    if (pair.first != nullptr && pair.second != nullptr) pairs.push_back(pair);
  }
  return pairs;
}

ComparedSide side_of(const std::vector<CasePair>& pairs, const FileCase* CasePair::*side,
                     const CasePair& shown) {
  ComparedSide result{.status = (shown.*side)->status, .reason = (shown.*side)->reason};
  std::vector<double> medians;
  for (const CasePair& pair : pairs) {
    medians.push_back(summarize((pair.*side)->seconds).median);
    result.repetitions += (pair.*side)->seconds.size();
  }
  result.median = summarize(medians).median;
  return result;
}

// The pairs in which ok() of A is a_ok and that of B is b_ok.
std::vector<CasePair> pairs_with(const std::vector<CasePair>& pairs, bool a_ok, bool b_ok) {
  std::vector<CasePair> found;
  std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(found), [&](const CasePair& pair) {
    return pair.first->ok() == a_ok && pair.second->ok() == b_ok;
  });
  return found;
}

ComparedCase judged(const CaseKey& key, const std::vector<CasePair>& pairs, double threshold) {
  const std::vector<CasePair> measured = pairs_with(pairs, true, true);
  const std::vector<CasePair> regressed = pairs_with(pairs, true, false);
  const std::vector<CasePair> recovered = pairs_with(pairs, false, true);
  std::vector<RunPair> seconds;
  for (const auto& [a, b] : measured) seconds.push_back({a->seconds, b->seconds});
  const RunRatio ratio = ratio_of_runs(seconds);

  std::string verdict(name_of(verdict_of(ratio, threshold)));
  CasePair shown = pairs.front();
  if (!regressed.empty()) {
    verdict = "no longer ok";
    shown = regressed.front();
  } else if (!measured.empty()) {
    shown = measured.front();
  } else {
    verdict = recovered.empty() ? "not ok" : "ok now";
    if (!recovered.empty()) shown = recovered.front();
  }
  return {.key = key.factors,
          .factors = shown.second->factors,
          .verdict = verdict,
          .a = side_of(measured, &CasePair::first, shown),
          .b = side_of(measured, &CasePair::second, shown),
          .ratio = ratio,
          .pairs = measured.size()};
}

}  // namespace

bool Comparison::regression() const {
  return std::any_of(cases.begin(), cases.end(),
                     [](const ComparedCase& c) { return c.regression(); }) ||
         std::any_of(references.begin(), references.end(), [](const ReferenceResult& r) {
           return r.verdict == ReferenceResult::Verdict::regression;
         });
}

Comparison compare_files(const CompareOptions& options) {
  require_pairs(options.files);
  std::vector<ReferenceValue> references;
  if (!options.reference.empty()) references = read_reference(options.reference);
  Files a;
  Files b;
  Comparison comparison;
  for (std::size_t i = 0; i < options.files.size(); ++i) {
    const bool first = i % 2 == 0;
    (first ? comparison.a : comparison.b).push_back(options.files[i]);
    (first ? a : b).push_back(read_compared_file(options.files[i]));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (i > 0) require_alike(a.front(), a[i], options.any_machine);
    require_alike(a.front(), b[i], options.any_machine);
  }
  set_keys(a, b, options.any_machine);
  for (const CaseKey& key : keys_of(b)) {
    const std::vector<CasePair> pairs = pairs_of(a, b, key);
    if (!pairs.empty()) {
      comparison.cases.push_back(judged(key, pairs, options.threshold));
    } else {
      (any_has(a, key) ? comparison.no_pair : comparison.only_b).push_back(unmatched(b, key));
    }
  }
  for (const CaseKey& key : keys_of(a)) {
    if (!any_has(b, key)) comparison.only_a.push_back(unmatched(a, key));
  }
  if (comparison.cases.empty()) {
    throw UsageError(fmt::format("no case of {} has the factors of one in {}",
                                 options.files[1].string(), options.files[0].string()));
  }
  for (const ReferenceValue& reference : references) {
    comparison.references.push_back(held_to(reference, b));
  }
  return comparison;
}

}  // namespace paceline
