// `paceline plan`: memory, communication and time on paper.

#include <fmt/format.h>

#include <memory>

#include "experiments/plan/plan_options.h"
#include "experiments/plan/plan_sections.h"
#include "harness/command.h"

namespace paceline {

namespace {

class PlanCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& p) override {
    options_.declare(p);
    p.flag("--json", json_, "a line of JSON for each section and each row of a table");
  }
  void check(const OptionParser& p) override { options_.check(p); }
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    const std::vector<PlanSection> sections = plan_sections(options_.plan());
    fmt::print("{}", json_ ? report_json(sections) : report_text(sections));
    return ExitCode::done;
  }

 private:
  PlanOptions options_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace paceline
