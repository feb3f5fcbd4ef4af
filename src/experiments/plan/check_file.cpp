#include "experiments/plan/check_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/units.h"
#include "experiments/plan/device_memory.h"
#include "experiments/plan/step_time.h"
#include "record/case_file.h"
#include "record/console.h"

namespace paceline {

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

double error_percent(double predicted, double measured) {
  if (predicted == measured) return 0;  // nothing is sent
  return 100 * (predicted / measured - 1);
}

struct Quantity {
  std::string_view name;
  std::string_view unit;
  double Checked::*predicted;
  double Checked::*measured;
};
constexpr std::array quantities = {
    Quantity{"step", "s", &Checked::step_s, &Checked::measured_step_s},
    Quantity{"peak", "bytes", &Checked::peak_bytes, &Checked::measured_peak_bytes},
    Quantity{"sent", "bytes", &Checked::sent_bytes, &Checked::measured_sent_bytes}};

// The step time of a case, predicted from the cases of other plans; NaN without rates.
double step_from_others(const MeasuredStep& s, const Calibration& calibration) {
  const Calibration others = calibration.without(s.plan);
  return others.rates_for(s.plan) ? step_time(calibrated(s.plan, others)).step_s() : none;
}

std::vector<double> errors_of(const std::vector<Checked>& checked, const Quantity& q) {
  std::vector<double> errors;
  for (const Checked& c : checked) errors.push_back(error_percent(c.*q.predicted, c.*q.measured));
  return errors;
}

std::string percent_text(double percent) {
  return std::isnan(percent) ? "-" : fmt::format("{:+.2f}", percent);
}

// "step: median error 2.1%, worst 7.3%, of 20 cases"; empty if nothing was compared.
std::string errors_line(std::string_view what, std::vector<double> errors) {
  std::erase_if(errors, [](double e) { return std::isnan(e); });
  if (errors.empty()) return "";
  for (double& e : errors) e = std::abs(e);
  std::sort(errors.begin(), errors.end());
  const std::size_t n = errors.size();
  const double median = (errors[(n - 1) / 2] + errors[n / 2]) / 2;
  return fmt::format("{}: median error {:.1f}%, worst {:.1f}%, of {} cases\n", what, median,
                     errors.back(), n);
}

std::vector<std::string> factor_names_of(const std::string& path) {
  std::vector<std::string> names;
  const auto kind = enum_named<TrainingKind>(experiment_of(path));
  for (const Factor<TrainingCase>& f : training_factors(kind)) {
    if (f.names_case) names.emplace_back(f.name);
  }
  return names;
}

std::vector<Row> summary_rows(const std::string& path) {
  const std::vector<Column> summary = read_summary(path);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < length_of(summary.front()); ++i) rows.push_back(row_of(summary, i));
  return rows;
}

}  // namespace

std::vector<Checked> check_steps(const std::vector<MeasuredStep>& steps,
                                 const Calibration* calibration) {
  std::vector<Checked> checked;
  for (const MeasuredStep& s : steps) {
    Checked c{.name = s.name,
              .step_s = none,
              .measured_step_s = s.step_s,
              .peak_bytes = device_memory(s.plan).peak(),
              .measured_peak_bytes = s.peak_bytes,
              .sent_bytes =
                  s.plan.strategy_shape().sent_bytes(s.plan.step.recompute.blocks).value_or(none),
              .measured_sent_bytes = s.sent_bytes};
    if (calibration) c.step_s = step_from_others(s, *calibration);
    checked.push_back(c);
  }
  return checked;
}

std::string check_text(const std::string& path, const std::vector<Checked>& checked) {
  TableRows rows("plan/check");
  std::string lines;
  std::vector<std::vector<double>> errors;
  for (const Quantity& q : quantities) {
    errors.push_back(errors_of(checked, q));
    lines += errors_line(q.name, errors.back());
  }
  for (std::size_t i = 0; i < checked.size(); ++i) {
    Row row = {{"case", checked[i].name}};
    for (std::size_t k = 0; k < quantities.size(); ++k) {
      const Quantity& q = quantities[k];
      if (std::all_of(errors[k].begin(), errors[k].end(), [](double e) { return std::isnan(e); }))
        continue;  // no case has both values
      const std::string unit(q.unit);
      row.push_back({fmt::format("predicted_{}", q.name), checked[i].*q.predicted, unit});
      row.push_back({fmt::format("measured_{}", q.name), checked[i].*q.measured, unit});
      row.push_back({fmt::format("{}_error_percent", q.name), percent_text(errors[k][i])});
    }
    rows.add(row);
  }
  return closing_table(rows.take(), summary_rows(path), factor_names_of(path), TableFormat::text) +
         lines;
}

std::string check_json(const std::vector<Checked>& checked) {
  std::string text;
  for (const Checked& c : checked) {
    Row row = {{"case", c.name}};
    for (const Quantity& q : quantities) {
      row.push_back({fmt::format("predicted_{}_{}", q.name, q.unit), c.*q.predicted});
      row.push_back({fmt::format("measured_{}_{}", q.name, q.unit), c.*q.measured});
      row.push_back(
          {fmt::format("{}_error_percent", q.name), error_percent(c.*q.predicted, c.*q.measured)});
    }
    text += json_line(row) + '\n';
  }
  return text;
}

}  // namespace paceline
