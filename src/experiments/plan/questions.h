#pragma once
// --ask: questions about a plan, each answered in one line.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/plan/plan_case.h"
#include "record/case_record.h"

namespace paceline {

struct Question {
  std::string_view name;
  // Throws UsageError (--ask) if the question does not apply to the layout.
  Row (*answer)(const PlanCase& plan);
};

[[nodiscard]] std::span<const Question> questions();
[[nodiscard]] std::vector<std::string_view> question_names();

// "largest-batch: largest 37, peak 78.9 GB, memory 80 GB", and a newline.
[[nodiscard]] std::string answer_text(const Question& question, const Row& values);
[[nodiscard]] std::string answer_json(const Question& question, Row values);

}  // namespace paceline
