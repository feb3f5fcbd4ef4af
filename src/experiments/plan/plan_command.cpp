// `paceline plan`: memory, communication and time of a model and a layout, from closed forms.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/screen.h"
#include "experiments/plan/calibration.h"
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
             fmt::format("print only the answers to these questions, one line each ({}, a,b)",
                         joined_names(names_of(Question{}))),
             [this](const OptionParser::Texts& texts) {
               questions_.clear();
               for (const std::string& text : OptionParser::split(texts)) {
                 questions_.push_back(enum_named<Question>(text));
               }
             },
             {.type = ValueType::name, .list = true});
    p.value("--run-tokens", run_tokens_, "tokens of the training run of --ask run", {1, 1e18});
    p.value("--rates", rates_,
            "a file of paceline-analysis rates: its rates and links replace the data sheet, "
            "--peak-tflops, --utilization, --link-bandwidth and --latency");
    p.flag("--json", json_, "one line of JSON per section, table row or answer");
  }
  void check(const OptionParser& p) override {
    options_.check(p);
    const bool asks_for_run =
        std::find(questions_.begin(), questions_.end(), Question::run) != questions_.end();
    if (run_tokens_ > 0 && !asks_for_run) {
      throw UsageError("--run-tokens: goes with --ask run");
    }
  }
  [[nodiscard]] ExitCode run(Launch* /*launch*/) override {
    const PlanCase plan = options_.plan();
    if (rates_.empty()) {
      print_plan(plan);
      return ExitCode::done;
    }
    const RatesFile file = read_rates(rates_);
    print_plan(calibrated(plan, file));
    const std::vector<std::string> what = extrapolations(plan, file);
    if (!what.empty()) {
      print({{.name = "extrapolated",
              .title = "Extrapolated, not measured in any file",
              .note = fmt::format("{}", fmt::join(what, json_ ? "; " : "\n"))}});
    }
    return ExitCode::done;
  }

 private:
  void print(const std::vector<PlanSection>& sections) const {
    write_out("{}", json_ ? report_json(sections) : report_text(sections));
  }
  void print_plan(const PlanCase& plan) const {
    if (questions_.empty()) return print(plan_sections(plan));
    std::vector<Answer> answers;
    for (const Question q : questions_) answers.push_back(answer(plan, q, run_tokens_));
    write_out("{}", json_ ? answers_json(answers) : answers_text(answers));
  }

  PlanOptions options_;
  std::vector<Question> questions_;
  double run_tokens_ = 0;
  std::string rates_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace paceline
