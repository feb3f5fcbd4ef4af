// `paceline merge` and `paceline compare`: what reads result files and measures nothing.

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "harness/command.h"
#include "record/compare.h"
#include "record/result_file.h"

namespace paceline {

namespace {

class MergeCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& p) override { p.files(files_, 1, "the result file to rebuild"); }
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    merge_after_crash(files_.front());
    return ExitCode::done;
  }

 private:
  std::vector<std::string> files_;
};

class CompareCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& p) override {
    p.files(files_, 2, "A.h5 B.h5");
    p.flag("--any-machine", any_machine_, "compare runs of unlike machines too");
  }
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    const Comparison c = compare_files(files_[0], files_[1], any_machine_);
    fmt::print("{}", c.table);
    return c.regression ? ExitCode::regression : ExitCode::done;
  }

 private:
  std::vector<std::string> files_;
  bool any_machine_ = false;
};

}  // namespace

std::unique_ptr<Command> merge_command() { return std::make_unique<MergeCommand>(); }
std::unique_ptr<Command> compare_command() { return std::make_unique<CompareCommand>(); }

}  // namespace paceline
