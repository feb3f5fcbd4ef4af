#pragma once
// --check: what the closed forms and, with --from, the calibrated rates say beside every case of a
// result file.

#include <string>

#include "experiments/plan/calibration.h"

namespace paceline {

struct Checked {
  std::string name;   // the case's id
  double step_s = 0;  // NaN without rates for it
  double measured_step_s = 0;
  double peak_bytes = 0;
  double measured_peak_bytes = 0;
  double sent_bytes = 0;
  double measured_sent_bytes = 0;  // NaN where the file has none
};

// calibration: null without --from. A case is predicted from those of other plans alone: cases that
// differ in --warmup, say, are parts of one series.
[[nodiscard]] std::vector<Checked> check_steps(const std::vector<MeasuredStep>& steps,
                                               const Calibration* calibration);
// A table of the file's cases; or a line of JSON for each.
[[nodiscard]] std::string check_text(const std::string& path, const std::vector<Checked>& checked);
[[nodiscard]] std::string check_json(const std::vector<Checked>& checked);

}  // namespace paceline
