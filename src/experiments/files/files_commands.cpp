// `paceline merge` and `columns`: commands on result files, which measure nothing.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "core/error.h"
#include "core/screen.h"
#include "harness/command.h"
#include "record/case_file.h"
#include "record/descriptions.h"
#include "record/result_file.h"

namespace paceline {

namespace {

class MergeCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& p) override { p.file(file_, "the result file to rebuild"); }
  [[nodiscard]] ExitCode run(Launch* /*launch*/) override {
    const MergedCases merged = merge_after_crash(file_);
    for (const std::string& line : merged.warnings) write_to(stderr, "warning: {}\n", line);
    if (merged.count == 0) {
      throw UsageError(
          fmt::format("{}: none of its cases can be read: there is nothing to merge", file_));
    }
    write_out("{}: {} case{}; --resume continues the sweep\n", file_, merged.count,
              merged.count == 1 ? "" : "s");
    return ExitCode::done;
  }

 private:
  std::string file_;
};

// One line per dataset or attribute: group, name, unit, description, separated by tabs.
// docs/file-format.md is generated from it.
class ColumnsCommand final : public Command {
 public:
  explicit ColumnsCommand(std::span<const Registration> commands) : commands_(commands) {}

  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& /*p*/) override {}
  [[nodiscard]] ExitCode run(Launch* /*launch*/) override {
    for (const Description& d : descriptions()) {
      write_out("{}\t{}\t{}\t{}\n", d.group, d.name, d.unit, d.text);
    }
    for (const Registration& r : commands_) {
      for (const FactorNote& f : r.make()->factor_notes()) {
        write_out("factors of {}\t{}\t{}\t{}\n", r.name, f.name, f.unit, f.description);
      }
    }
    return ExitCode::done;
  }

 private:
  std::span<const Registration> commands_;
};

}  // namespace

std::unique_ptr<Command> columns_command(std::span<const Registration> commands) {
  return std::make_unique<ColumnsCommand>(commands);
}
std::unique_ptr<Command> merge_command() { return std::make_unique<MergeCommand>(); }

}  // namespace paceline
