// `paceline merge`, `compare` and `columns`: commands on result files, which measure nothing.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/screen.h"
#include "harness/command.h"
#include "record/case_file.h"
#include "record/compare.h"
#include "record/comparison_text.h"
#include "record/descriptions.h"
#include "record/result_file.h"

namespace paceline {

namespace {

class MergeCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& p) override { p.files(files_, 1, 1, "the result file to rebuild"); }
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    for (const std::string& damage : merge_after_crash(files_.front())) {
      write_to(stderr, "warning: {}\n", damage);
    }
    if (!std::filesystem::exists(files_.front())) {
      throw UsageError(fmt::format("{}: none of its cases can be read: there is nothing to merge",
                                   files_.front()));
    }
    const std::size_t cases = length_of(read_summary(files_.front()).front());
    write_out("{}: {} case{}; --resume continues the sweep\n", files_.front(), cases,
              cases == 1 ? "" : "s");
    return ExitCode::done;
  }

 private:
  std::vector<std::string> files_;
};

class CompareCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& p) override {
    constexpr int max_files = 10'000;
    p.files(files_, 2, max_files, "A.h5 B.h5, or runs in pairs: A1.h5 B1.h5 A2.h5 B2.h5 ...");
    p.flag("--any-machine", options_.any_machine, "also compare runs of different machines");
    p.value("--threshold", threshold_percent_,
            "percent by which times may differ and count as equal [2]", {0, 1e6});
    p.option("--reference",
             "a TOML file of values and tolerances that B must meet (docs/measuring.md)",
             [this](const OptionParser::Texts& texts) {
               options_.reference = OptionParser::single(texts);
               if (options_.reference.empty()) throw UsageError("needs a file");
             });
    p.flag("--json", json_, "one line of JSON per case instead of a table");
  }
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    options_.files.assign(files_.begin(), files_.end());
    options_.threshold = threshold_percent_ / 100;
    const Comparison comparison = compare_files(options_);
    write_out("{}", json_ ? comparison_json(comparison) : comparison_table(comparison));
    return comparison.regression() ? ExitCode::regression : ExitCode::done;
  }

 private:
  std::vector<std::string> files_;
  CompareOptions options_;
  double threshold_percent_ = 2;
  bool json_ = false;
};

// One line per dataset or attribute: group, name, unit, description, separated by tabs.
// docs/file-format.md is generated from it.
class ColumnsCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& /*p*/) override {}
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    for (const Description& d : descriptions()) {
      write_out("{}\t{}\t{}\t{}\n", d.group, d.name, d.unit, d.text);
    }
    for (const Registration& r : registry()) {
      for (const FactorNote& f : r.make()->factor_notes()) {
        write_out("factors of {}\t{}\t{}\t{}\n", r.name, f.name, f.unit, f.description);
      }
    }
    return ExitCode::done;
  }
};

}  // namespace

std::unique_ptr<Command> columns_command() { return std::make_unique<ColumnsCommand>(); }
std::unique_ptr<Command> merge_command() { return std::make_unique<MergeCommand>(); }
std::unique_ptr<Command> compare_command() { return std::make_unique<CompareCommand>(); }

}  // namespace paceline
