#pragma once
// --ask: questions that a plan answers in one line each.

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
  kept_gathers,    // whether gathered parameters can stay until backward
  gradient_dtype,  // which one to send pays
  compute_bound,
  best_bucket,
  link_bandwidth,  // what twice as much gains
  run,             // a whole training run
  efficiency,      // as the ranks grow
};
constexpr auto names_of(Question) {
  return names("largest-batch", "largest-context", "fewest-devices", "memory", "kept-gathers",
               "gradient-dtype", "compute-bound", "best-bucket", "link-bandwidth", "run",
               "efficiency");
}

struct Answer {
  Question question;
  std::string text;  // one line
  Row values;        // what of it a program reads
};

// run_tokens: of the training run. Throws UsageError (--ask) where the layout leaves no question.
[[nodiscard]] Answer answer(const PlanCase& plan, Question question, double run_tokens);

// "largest-batch: 37 sequences ..."; one line each.
[[nodiscard]] std::string answers_text(const std::vector<Answer>& answers);
[[nodiscard]] std::string answers_json(const std::vector<Answer>& answers);

}  // namespace paceline
