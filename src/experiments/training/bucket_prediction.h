#pragma once
// --predict: compares the course's bucket equation, with fitted latency and bandwidth, with a
// measured sweep over bucket sizes.
//
// n: buckets; s: bytes of all gradients; o: latency per call, s; w: bandwidth, bytes/s. If
// computing a bucket's gradients takes as long as sending them, the exposed communication is
//   overhead(n) = n o + s / (n w), which is smallest for buckets of sqrt(s o w) bytes.

#include <string>
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

// A measured case with --sync bucketed.
struct MeasuredBuckets {
  TrainingCase factors;
  std::string name;
  Link link;
  double calls = 0;
  double bytes = 0;    // of gradients
  double exposed = 0;  // s
  double step = 0;     // s
};

// Table "predict": for each measured case the equation, the measurement, and the fastest bucket
// size of its sweep. Empty without cases.
[[nodiscard]] std::vector<Table> prediction_tables(const std::vector<MeasuredBuckets>& measured);

}  // namespace paceline
