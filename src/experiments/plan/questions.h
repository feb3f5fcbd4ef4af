#pragma once
// --ask: questions about a plan, each answered in one line.

#include <string>
#include <vector>

#include "experiments/plan/plan_case.h"
#include "record/case_record.h"

namespace paceline {

enum class Question : std::uint8_t {
  largest_batch,
  largest_context,
  fewest_devices,
  memory,          // of a device, by kind
  kept_gathers,    // whether gathered parameters fit into memory until backward
  gradient_dtype,  // the dtype in which gradients should be sent
  compute_bound,   // the smallest compute-bound batch
  best_bucket,     // the bucket size with the least overhead
  link_bandwidth,  // the speedup from twice the link bandwidth
  run,             // days and device hours of a training run
  efficiency,      // weak scaling over the number of ranks
  step,            // its parts, and the bytes that a rank sends
  work,            // of a rank's step by kind, and the rates at which it is done
};
constexpr auto names_of(Question) {
  return names("largest-batch", "largest-context", "fewest-devices", "memory", "kept-gathers",
               "gradient-dtype", "compute-bound", "best-bucket", "link-bandwidth", "run",
               "efficiency", "step", "work");
}

struct Answer {
  Question question;
  Row values;
};

// run_tokens: tokens of the training run. Throws UsageError (--ask) if the question does not apply
// to the layout.
[[nodiscard]] Answer answer(const PlanCase& plan, Question question, double run_tokens);

// "largest-batch: largest 37, peak 78.9 GB, memory 80 GB"; one line per answer.
[[nodiscard]] std::string answers_text(const std::vector<Answer>& answers);
[[nodiscard]] std::string answers_json(const std::vector<Answer>& answers);

}  // namespace paceline
