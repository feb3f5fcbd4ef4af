#pragma once
// The tables at the end of a sweep. "predict", with --predict: the course's bucket equation, with
// fitted latency and bandwidth, beside the measured sweep over bucket sizes. "recompute": of a
// sweep over --recompute, the value with the lowest peak and the value with the fastest step.
//
// n: buckets; s: bytes of all gradients; o: latency per call, s; w: bandwidth, bytes/s. If
// computing a bucket's gradients takes as long as sending them, the exposed communication is
//   overhead(n) = n o + s / (n w), which is smallest for buckets of sqrt(s o w) bytes.

#include <string>
#include <string_view>
#include <vector>

#include "core/communicator.h"
#include "experiments/training/rates_file.h"
#include "experiments/training/training_case.h"
#include "record/case_record.h"

namespace paceline {

// The file's fit of all_reduce with this backend and the case's dtype and ranks. Throws UsageError
// (--predict) if there is none.
[[nodiscard]] Link read_link(const std::string& path, const Communicator& communicator,
                             const TrainingCase& c);

// sqrt(bytes latency bandwidth) in bytes, at most one bucket of all gradients. bytes: of all
// gradients; latency: s; bandwidth: bytes/s.
[[nodiscard]] double best_bucket_bytes(double bytes, double latency, double bandwidth);

// A case with status ok.
struct MeasuredCase {
  const TrainingCase* factors;
  const Row* columns;  // of /summary

  [[nodiscard]] double at(std::string_view column) const {
    return value_in<double>(*columns, column);
  }
};

// One row per case with --sync bucketed: the equation with the links of the file `path`, the
// measurement, and the fastest bucket size of its sweep. Empty without such cases.
[[nodiscard]] std::vector<Table> prediction_tables(const std::string& path,
                                                   const Communicator& communicator,
                                                   const std::vector<MeasuredCase>& measured);

// One row per group of cases that differ only in --recompute. Empty if no group has two cases.
[[nodiscard]] std::vector<Table> recompute_tables(const Factors<TrainingCase>& factors,
                                                  const std::vector<MeasuredCase>& measured);

}  // namespace paceline
