#include "harness/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/screen.h"
#include "core/units.h"
#include "record/case_record.h"

namespace paceline {

namespace {

void print_json(const Experiment& experiment) {
  const std::vector<Case>& cases = experiment.cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Row row{{"case", cases[i].id(experiment.naming_factors())}};
    for (const auto& [name, value] : cases[i].factors()) row.push_back({name, value});
    const Prediction p = experiment.predict(i);
    row.push_back({"predicted_flops", p.flops});
    row.push_back({"predicted_bytes", p.bytes});
    row.push_back({"predicted_peak_bytes", p.memory_bytes});
    row.push_back({"reason", experiment.cannot_run(i)});
    write_out("{}\n", json_line(row));
  }
}

void print_table(const Experiment& experiment) {
  const std::vector<Case>& cases = experiment.cases();
  double flush = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    flush = std::max(flush, experiment.predict(i).flush_bytes);
  }
  write_out("{} case{} of '{}'; per rank and repetition{}:\n", cases.size(),
            cases.size() == 1 ? "" : "s", experiment.name(),
            flush == 0 ? "" : fmt::format(", without {} to flush the cache", bytes_text(flush)));
  std::vector<std::string> names = experiment.naming_factors();
  std::erase_if(names, [&](const std::string& name) {
    return std::none_of(cases.begin(), cases.end(), [&](const Case& c) { return c.has(name); });
  });
  write_out("{:>10} {:>12} {:>12}  case ({})\n", "FLOPs", "least bytes", "peak memory",
            fmt::join(names, " "));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Prediction p = experiment.predict(i);
    std::vector<std::string> values;
    for (const std::string& name : names) {
      values.push_back(cases[i].has(name) ? to_text(cases[i].at(name)) : "-");
    }
    const std::string why = experiment.cannot_run(i);
    write_out("{:>10} {:>12} {:>12}  {}{}{}\n", count_text(p.flops), bytes_text(p.bytes),
              bytes_text(p.memory_bytes), fmt::join(values, " "), why.empty() ? "" : "  ", why);
  }
}

}  // namespace

void print_dry_run(const Experiment& experiment, bool json) {
  json ? print_json(experiment) : print_table(experiment);
}

}  // namespace paceline
