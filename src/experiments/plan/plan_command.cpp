// `paceline plan`: memory, communication and time on paper.

#include <fmt/format.h>

#include <memory>

#include "experiments/plan/plan_options.h"
#include "experiments/plan/plan_sections.h"
#include "experiments/plan/questions.h"
#include "harness/command.h"

namespace paceline {

namespace {

class PlanCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& p) override {
    options_.declare(p);
    p.option("--ask",
             fmt::format("questions that get one line of answer each, and nothing else ({}, a,b)",
                         joined_names(names_of(Question{}))),
             [this](const OptionParser::Texts& texts) {
               questions_.clear();
               for (const std::string& text : OptionParser::split(texts)) {
                 questions_.push_back(enum_named<Question>(text));
               }
             },
             {.type = ValueType::name, .list = true});
    p.value("--run-tokens", run_tokens_, "tokens of the training run of --ask run", {1, 1e18});
    p.flag("--json", json_, "a line of JSON for each section, row of a table or answer");
  }
  void check(const OptionParser& p) override { options_.check(p); }
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    const PlanCase plan = options_.plan();
    if (!questions_.empty()) {
      std::vector<Answer> answers;
      for (const Question q : questions_) answers.push_back(answer(plan, q, run_tokens_));
      fmt::print("{}", json_ ? answers_json(answers) : answers_text(answers));
      return ExitCode::done;
    }
    const std::vector<PlanSection> sections = plan_sections(plan);
    fmt::print("{}", json_ ? report_json(sections) : report_text(sections));
    return ExitCode::done;
  }

 private:
  PlanOptions options_;
  std::vector<Question> questions_;
  double run_tokens_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace paceline
