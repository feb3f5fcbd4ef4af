#include "record/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/similar_name.h"
#include "core/toml.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array<std::string_view, 5> entry_keys = {"case", "column", "value", "tolerance",
                                                        "better"};

// Reads the entries of one [[value]].
class Entries {
 public:
  Entries(const TomlDocument& document, const TomlValue& value)
      : document_(document), at_(value.at), table_(std::get_if<TomlTable>(&value.value)) {
    if (table_ == nullptr) throw document_.error(at_, "a reference is a list of [[value]] tables");
    for (const TomlEntry& entry : table_->entries) {
      if (std::find(entry_keys.begin(), entry_keys.end(), entry.key) != entry_keys.end()) continue;
      throw document_.error(
          entry.at, fmt::format("'{}' is none of {}", entry.key, fmt::join(entry_keys, ", ")));
    }
  }

  [[nodiscard]] Case factors() const {
    const TomlValue& value = at("case");
    const auto* table = std::get_if<TomlTable>(&value.value);
    if (table == nullptr || table->entries.empty()) {
      throw document_.error(value.at, "'case' is not a table of factors, { size = \"small\" }");
    }
    Case factors;
    for (const TomlEntry& entry : table->entries) factors.set(entry.key, factor(entry));
    return factors;
  }

  [[nodiscard]] std::string text(std::string_view key) const {
    const TomlValue& value = at(key);
    const auto* text = std::get_if<std::string>(&value.value);
    if (text == nullptr) throw document_.error(value.at, fmt::format("'{}' is not a string", key));
    return *text;
  }

  [[nodiscard]] double number(std::string_view key, double least) const {
    const TomlValue& value = at(key);
    const auto* whole = std::get_if<std::int64_t>(&value.value);
    const auto* real = std::get_if<double>(&value.value);
    const double number = whole != nullptr  ? static_cast<double>(*whole)
                          : real != nullptr ? *real
                                            : nan;
    if (std::isfinite(number) && number >= least) return number;
    const std::string from = std::isfinite(least) ? fmt::format(" from {} on", least) : "";
    throw document_.error(value.at, fmt::format("'{}' is not a number{}", key, from));
  }

  [[nodiscard]] Better better() const {
    try {
      return enum_named<Better>(text("better"));
    } catch (const UsageError& error) {
      throw document_.error(at("better").at, error.what());
    }
  }

 private:
  [[nodiscard]] const TomlValue& at(std::string_view key) const {
    const TomlEntry* entry = table_->find(key);
    if (entry == nullptr) throw document_.error(at_, fmt::format("'{}' is missing", key));
    return entry->value;
  }

  [[nodiscard]] Value factor(const TomlEntry& entry) const {
    const auto& value = entry.value.value;
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
    if (const auto* real = std::get_if<double>(&value)) return *real;
    if (const auto* flag = std::get_if<bool>(&value)) return *flag;
    throw document_.error(entry.at,
                          fmt::format("factor '{}' is {}", entry.key, kind_of(entry.value)));
  }

  const TomlDocument& document_;
  TomlPosition at_;
  const TomlTable* table_;
};

bool has_factors(const FileCase& one, const Case& wanted) {
  const auto& factors = wanted.factors();
  return std::all_of(factors.begin(), factors.end(), [&](const auto& factor) {
    const auto& [name, value] = factor;
    return one.factors.has(name) && to_text(one.factors.at(name)) == to_text(value);
  });
}

// A factor that no case has is a mistake; a value that none has is a case that was not measured.
void require_factors(const Case& wanted, const std::vector<ComparedFile>& runs) {
  std::set<std::string> known;
  for (const ComparedFile& run : runs) {
    for (const FileCase& one : run.cases) {
      for (const auto& [name, value] : one.factors.factors()) known.insert(name);
    }
  }
  for (const auto& [name, value] : wanted.factors()) {
    if (known.contains(name)) continue;
    const std::vector<std::string_view> names(known.begin(), known.end());
    throw UsageError(fmt::format("--reference: {} has no factor '{}'{}", runs.front().path.string(),
                                 name, did_you_mean(name, names)));
  }
}

// Null if the file has none.
const FileCase* case_of(const ComparedFile& file, const Case& wanted) {
  const FileCase* found = nullptr;
  for (const FileCase& one : file.cases) {
    if (!has_factors(one, wanted)) continue;
    if (found != nullptr) {
      throw UsageError(fmt::format("--reference: {} has several cases with {}: name more factors",
                                   file.path.string(), factors_line(texts_of(wanted))));
    }
    found = &one;
  }
  return found;
}

// NaN for a case that failed.
double value_of(const ComparedFile& file, const FileCase& one, const std::string& column) {
  if (!one.ok()) return nan;
  const Cell* cell = find_column(one.summary, column);
  if (cell == nullptr || std::holds_alternative<std::string>(cell->value)) {
    throw UsageError(fmt::format("--reference: {} has no column '{}' of numbers in its summary",
                                 file.path.string(), column));
  }
  return number_of(cell->value);
}

ReferenceResult::Verdict verdict_on(double measured, const ReferenceValue& reference) {
  using Verdict = ReferenceResult::Verdict;
  const double margin = std::abs(reference.value) * reference.tolerance / 100;
  const double gain =
      reference.better == Better::higher ? measured - reference.value : reference.value - measured;
  if (gain > margin) return Verdict::better;
  return gain >= -margin ? Verdict::within : Verdict::regression;  // NaN: regression
}

}  // namespace

std::vector<ReferenceValue> read_reference(const std::string& path) {
  const TomlDocument document = read_toml(path);
  const TomlEntry* list = document.root.find("value");
  const auto* values = list == nullptr ? nullptr : std::get_if<TomlArray>(&list->value.value);
  if (values == nullptr || document.root.entries.size() != 1) {
    throw UsageError(
        fmt::format("{}: a reference is a list of [[value]] tables and nothing else", path));
  }
  std::vector<ReferenceValue> references;
  for (const TomlValue& value : *values) {
    const Entries entries(document, value);
    references.push_back(
        {.factors = entries.factors(),
         .column = entries.text("column"),
         .value = entries.number("value", -std::numeric_limits<double>::infinity()),
         .tolerance = entries.number("tolerance", 0),
         .better = entries.better()});
  }
  return references;
}

ReferenceResult held_to(const ReferenceValue& reference, const std::vector<ComparedFile>& runs) {
  require_factors(reference.factors, runs);
  std::vector<double> measured;
  for (const ComparedFile& run : runs) {
    const FileCase* one = case_of(run, reference.factors);
    if (one != nullptr) measured.push_back(value_of(run, *one, reference.column));
  }
  const double median = summarize(measured).median;
  return {.reference = reference,
          .verdict =
              measured.empty() ? ReferenceResult::Verdict::missing : verdict_on(median, reference),
          .measured = median};
}

}  // namespace paceline
