#pragma once
// --predict: the course's bucket equation, from a file of fitted collectives, beside the sweep.
//
// With n buckets of s bytes of gradients in all, latency o per call and bandwidth w, and as much
// time to compute a bucket's gradients as to send them, what is exposed is
//   overhead(n) = n o + s / (n w), least at buckets of sqrt(s o w) bytes.

#include <string>
#include <vector>

#include "core/communicator.h"
#include "experiments/training/fitted_links.h"
#include "experiments/training/training_case.h"
#include "record/case_record.h"

namespace paceline {

// The file's fit of this backend's all_reduce of the case's dtype and ranks; back-to-back where
// there are several. Throws UsageError (--predict) where it has none.
[[nodiscard]] Link read_link(const std::string& path, const Communicator& communicator,
                             const TrainingCase& c);

// sqrt(s o w), in bytes.
[[nodiscard]] double best_bucket_bytes(double bytes, double latency, double bandwidth);

// A bucketed case that was measured.
struct MeasuredBuckets {
  TrainingCase factors;
  std::string name;
  Link link;
  double calls = 0;
  double bytes = 0;    // of gradients
  double exposed = 0;  // s
  double step = 0;     // s
};

// "predict": the equation beside each measured case, and beside the fastest of its sweep over
// buckets. Nothing without a case.
[[nodiscard]] std::vector<Table> prediction_tables(const std::vector<MeasuredBuckets>& measured);

}  // namespace paceline
