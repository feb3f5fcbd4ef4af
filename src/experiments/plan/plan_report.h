#pragma once
// A plan as text or JSON: sections of lines, each a derivation with its numbers, and tables; or
// the answers to the questions of --ask, each in one line.

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/plan/plan_case.h"
#include "record/case_record.h"

namespace paceline {

enum class PlanUnit : std::uint8_t { number, count, bytes, seconds, tokens, devices };

struct PlanLine {
  std::string key;  // "weights_bytes": its name in JSON
  std::string what;
  std::string formula;
  double value = 0;
  PlanUnit unit = PlanUnit::number;
};

struct PlanSection {
  std::string name;  // "state": in JSON
  std::string title;
  std::vector<PlanLine> lines = {};
  std::optional<Table> table = {};
  std::string note = {};

  template <class... Args>
  void add(std::string key, std::string what, double value, PlanUnit unit,
           fmt::format_string<Args...> formula, Args&&... args) {
    lines.push_back({std::move(key), std::move(what),
                     fmt::format(formula, std::forward<Args>(args)...), value, unit});
  }
};

// The sections that apply to the plan, in the order in which they are printed: its layout, memory,
// the smallest compute-bound batch with alternatives, and time.
[[nodiscard]] std::vector<PlanSection> plan_sections(const PlanCase& plan);
[[nodiscard]] std::vector<PlanSection> memory_sections(const PlanCase& plan);

// A number with thousands separators and `decimals` digits after the point: "219,848,638,464".
[[nodiscard]] std::string grouped(double value, int decimals = 0);
// "1 device", "1,024 devices".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);
// "3,517.58 GB = 3,276.00 GiB", below 1 GB "10.49 MB = 10.00 MiB", below 10 kB "512 bytes".
[[nodiscard]] std::string both_sizes(double bytes);

[[nodiscard]] std::string report_text(const std::vector<PlanSection>& sections);
// One line of JSON per section that has lines, and one per table row.
[[nodiscard]] std::string report_json(const std::vector<PlanSection>& sections);

[[nodiscard]] std::vector<std::string_view> question_names();
// "largest-batch: largest 37, peak 78.9 GB, memory 80 GB", or a line of JSON. Throws UsageError
// (--ask) if the question does not apply to the layout.
[[nodiscard]] std::string answer(std::string_view question, const PlanCase& plan, bool json);

}  // namespace paceline
