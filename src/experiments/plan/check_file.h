#pragma once
// --check: compares the closed forms and, with --from, the calibrated step times with every case of
// a result file.

#include <string>

#include "experiments/plan/calibration.h"

namespace paceline {

struct Checked {
  std::string name;   // the case's id
  double step_s = 0;  // predicted; NaN without calibrated rates
  double measured_step_s = 0;
  double peak_bytes = 0;
  double measured_peak_bytes = 0;
  double sent_bytes = 0;
  double measured_sent_bytes = 0;  // NaN if the file has no such column
};

// calibration: null without --from. A case is predicted only from cases of other plans; cases that
// differ only in, for example, --warmup have the same plan.
[[nodiscard]] std::vector<Checked> check_steps(const std::vector<MeasuredStep>& steps,
                                               const Calibration* calibration);
// A table of the file's cases; or one line of JSON per case.
[[nodiscard]] std::string check_text(const std::string& path, const std::vector<Checked>& checked);
[[nodiscard]] std::string check_json(const std::vector<Checked>& checked);

}  // namespace paceline
