// `paceline plan`: memory, communication and time of a model and a layout, from closed forms.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/screen.h"
#include "experiments/plan/check_file.h"
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
    p.option("--from",
             "result files of paceline, of model, ddp and zero for steps, of collectives --fit for "
             "links: fitted rates replace the data sheet, --peak-tflops, --utilization, "
             "--link-bandwidth and --latency (a,b)",
             [this](const OptionParser::Texts& texts) { from_ = OptionParser::split(texts); },
             {.list = true});
    p.value("--check", check_,
            "a result file of model, ddp or zero: compare predictions with each of its cases");
    p.flag("--json", json_, "one line of JSON per section, table row or answer");
  }
  void check(const OptionParser& p) override {
    options_.check(p);
    if (!check_.empty()) options_.check_none_given(p, "--check");
    if (!check_.empty() && !questions_.empty()) {
      throw UsageError("--ask: cannot be combined with --check; leave one of them out");
    }
    const bool asks_for_run =
        std::find(questions_.begin(), questions_.end(), Question::run) != questions_.end();
    if (run_tokens_ > 0 && !asks_for_run) {
      throw UsageError("--run-tokens: goes with --ask run");
    }
  }
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    const std::optional<Calibration> calibration =
        from_.empty() ? std::nullopt : std::optional<Calibration>(from_);
    if (!check_.empty()) return check_file(calibration ? &*calibration : nullptr);
    const PlanCase plan = options_.plan();
    if (!calibration) {
      print_plan(plan);
      return ExitCode::done;
    }
    print_plan(calibrated(plan, *calibration));
    const std::vector<std::string> what = calibration->extrapolations(plan);
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
  [[nodiscard]] ExitCode check_file(const Calibration* calibration) const {
    const std::vector<MeasuredStep> steps = read_measured_steps(check_);
    const std::vector<Checked> checked = check_steps(steps, calibration);
    write_out("{}", json_ ? check_json(checked) : check_text(check_, checked));
    if (calibration && !json_) {
      for (const std::string& line : calibration->other_devices(steps.front().plan)) {
        write_out("{}\n", line);
      }
    }
    return ExitCode::done;
  }

  PlanOptions options_;
  std::vector<Question> questions_;
  double run_tokens_ = 0;
  std::vector<std::string> from_;
  std::string check_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace paceline
