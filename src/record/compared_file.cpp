#include "record/compared_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "measure/statistics.h"
#include "record/case_file.h"
#include "record/result_file.h"
#include "record/untrusted_file.h"

namespace paceline {

namespace {

// Factors that set the number of repetitions, or what else is recorded.
constexpr std::array<std::string_view, 9> effort = {"warmup",   "max_warmup",      "steps",
                                                    "min_time", "until_ci",        "max_steps",
                                                    "timeout",  "memory_timeline", "profile"};
// Factors whose default follows from the machine.
constexpr std::array<std::string_view, 3> of_machine = {"device", "threads", "ranks"};

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> sorted(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

template <class T>
const std::vector<T>& data_of(const std::vector<Column>& columns, const std::string& name) {
  const Column* column = find_column(columns, name);
  const auto* data = column == nullptr ? nullptr : std::get_if<std::vector<T>>(&column->data);
  if (data == nullptr) throw Hdf5Error(fmt::format("column '{}' is missing", name));
  return *data;
}

// Throws for values that cannot be times.
void require_seconds(const std::vector<double>& flat, const hdf5::Dims& dims) {
  for (std::size_t i = 0; i < flat.size(); ++i) {
    if (std::isfinite(flat[i]) && flat[i] >= 0) continue;
    throw Hdf5Error(
        fmt::format("rank {} took {} s in repetition {}", i / dims[1], flat[i], i % dims[1]));
  }
}

// The maximum over ranks of each repetition of a dataset [rank, repetition].
std::vector<double> seconds_of(const hdf5::Dataset& dataset) {
  const hdf5::Dims dims = dataset.dims();
  if (dims.size() != 2 || dims[0] == 0) throw Hdf5Error("it is not [rank, repetition]");
  if (dataset.type_class() != H5T_FLOAT) throw Hdf5Error("it does not hold real numbers");
  const std::vector<double> flat = dataset.read<double>();
  require_seconds(flat, dims);
  std::vector<std::vector<double>> by_rank;
  for (std::size_t rank = 0; rank < dims[0]; ++rank) {
    const auto row = flat.begin() + static_cast<std::ptrdiff_t>(rank * dims[1]);
    by_rank.emplace_back(row, row + static_cast<std::ptrdiff_t>(dims[1]));
  }
  return max_over_ranks(by_rank);
}

bool is_status(const std::string& word) {
  constexpr auto words = names_of(Status{});
  return contains(words, word);
}

// Within rounding: machines may sum in different orders.
bool agree(double a, double b) {
  constexpr double rounding = 1e-9;
  return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= rounding * std::abs(b);
}

std::filesystem::path checked_path(std::filesystem::path path) {
  require_merged(path);
  require_readable(path);
  return path;
}

// The texts of the factors except seed and `ignored`.
FactorTexts texts_without(const std::set<std::string>& ignored, const Case& factors) {
  FactorTexts texts = texts_of(factors);
  std::erase_if(texts, [&](const auto& factor) {
    return factor.first == "seed" || ignored.contains(factor.first);
  });
  return texts;
}

// The ignored factors in which cases of the file differ that are otherwise the same.
std::set<std::string> distinguishing(const std::set<std::string>& ignored,
                                     const ComparedFile& file) {
  const auto text_of = [](const Case& factors, const std::string& name) {
    return factors.has(name) ? to_text(factors.at(name)) : "";
  };
  std::set<std::string> names;
  std::map<FactorTexts, const Case*> first;
  for (const FileCase& one : file.cases) {
    const Case& other =
        *first.emplace(texts_without(ignored, one.factors), &one.factors).first->second;
    for (const std::string& name : ignored) {
      if (text_of(one.factors, name) != text_of(other, name)) names.insert(name);
    }
  }
  return names;
}

class Reader {
 public:
  explicit Reader(std::filesystem::path path)
      : path_(checked_path(std::move(path))),
        summary_(read_summary(path_)),
        file_(open_result_file(path_)) {}

  [[nodiscard]] ComparedFile read() const {
    const std::vector<Column> ranks = read_columns(file_.group("ranks"));
    ComparedFile read{.path = path_,
                      .experiment = file_.text_attribute("experiment"),
                      .devices = sorted(data_of<std::string>(ranks, "device")),
                      .cpus = sorted(data_of<std::string>(ranks, "cpu")),
                      .cases = {}};
    const std::vector<std::string>& ids = data_of<std::string>(summary_, "case");
    require_every_case(ids);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      read.cases.push_back(read_case(ids[row], row));
    }
    return read;
  }

 private:
  void require_every_case(const std::vector<std::string>& ids) const {
    const std::vector<std::string> groups = case_names(file_);
    if (std::set(ids.begin(), ids.end()) == std::set(groups.begin(), groups.end()) &&
        ids.size() == groups.size()) {
      return;
    }
    throw UsageError(fmt::format(
        "{}: the summary names other cases than the file holds: it was changed; measure again",
        path_.string()));
  }

  [[nodiscard]] FileCase read_case(const std::string& id, std::size_t row) const {
    const hdf5::Group group = file_.group("cases/" + id);
    FileCase one{.key = {},
                 .factors = read_factors(file_, id),
                 .summary = row_of(summary_, row),
                 .status = group.text_attribute("status"),
                 .reason = group.text_attribute("reason"),
                 .seconds = {}};
    if (!is_status(one.status)) {
      throw UsageError(fmt::format("{}: case {}: '{}' is not a status; measure again",
                                   path_.string(), id, one.status));
    }
    if (!group.has("samples")) return one;
    const hdf5::Group samples = group.group("samples");
    const std::string headline = samples.text_attribute("headline");
    (void)samples.dataset(headline);  // it must be there
    for (const std::string& phase : samples.names()) {
      std::vector<double> seconds = read_seconds(id, samples, phase);
      require_summary(id, row, phase, seconds);
      if (phase == headline) one.seconds = std::move(seconds);
    }
    return one;
  }

  [[nodiscard]] std::vector<double> read_seconds(const std::string& id, const hdf5::Group& samples,
                                                 const std::string& phase) const {
    try {
      return seconds_of(samples.dataset(phase));
    } catch (const Hdf5Error& error) {
      throw UsageError(fmt::format("{}: case {}: samples/{}: {}; measure again", path_.string(), id,
                                   phase, error.what()));
    }
  }

  void require_summary(const std::string& id, std::size_t row, const std::string& phase,
                       const std::vector<double>& seconds) const {
    const Summary of_samples = summarize(seconds);
    for (const auto& [name, member] : summary_figures) {
      const std::string column = fmt::format("{}_{}_s", phase, name);
      const double stated = data_of<double>(summary_, column).at(row);
      if (agree(stated, of_samples.*member)) continue;
      throw UsageError(
          fmt::format("{}: case {}: {} is {:.6g} in the summary and {:.6g} by the samples: it "
                      "was changed; measure again",
                      path_.string(), id, column, stated, of_samples.*member));
    }
  }

  std::filesystem::path path_;
  std::vector<Column> summary_;
  hdf5::File file_;
};

}  // namespace

FactorTexts texts_of(const Case& factors) {
  FactorTexts texts;
  for (const auto& [name, value] : factors.factors()) texts.emplace_back(name, to_text(value));
  return texts;
}

const FileCase* ComparedFile::find(const CaseKey& key) const {
  const auto it =
      std::find_if(cases.begin(), cases.end(), [&](const FileCase& c) { return c.key == key; });
  return it == cases.end() ? nullptr : &*it;
}

ComparedFile read_compared_file(const std::filesystem::path& path) {
  return reading(path, [&] { return Reader(path).read(); });
}

void set_keys(std::vector<ComparedFile>& a, std::vector<ComparedFile>& b, bool any_machine) {
  std::set<std::string> ignored(effort.begin(), effort.end());
  if (any_machine) ignored.insert(of_machine.begin(), of_machine.end());
  std::set<std::string> needed;
  for (const std::vector<ComparedFile>* side : {&a, &b}) {
    for (const ComparedFile& file : *side) needed.merge(distinguishing(ignored, file));
  }
  for (const std::string& name : needed) ignored.erase(name);
  for (std::vector<ComparedFile>* side : {&a, &b}) {
    for (ComparedFile& file : *side) {
      std::map<FactorTexts, std::size_t> counts;
      for (FileCase& one : file.cases) {
        one.key.factors = texts_without(ignored, one.factors);
        one.key.earlier = counts[one.key.factors]++;
      }
    }
  }
}

}  // namespace paceline
