// `paceline list`, `columns` and `merge`: commands that measure nothing.

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/screen.h"
#include "core/text.h"
#include "harness/command.h"
#include "record/case_file.h"
#include "record/descriptions.h"
#include "record/result_file.h"

namespace paceline {

namespace {

// Without options: prints a text.
class TextCommand final : public Command {
 public:
  explicit TextCommand(std::function<std::string()> text) : text_(std::move(text)) {}

  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& /*p*/) override {}
  [[nodiscard]] ExitCode run(Launch* /*launch*/) override {
    write_out("{}", text_());
    return ExitCode::done;
  }

 private:
  std::function<std::string()> text_;
};

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

// An experiment with its presets and the options that they set, in lines of at most 100 columns.
std::string listed(const Registration& experiment, const Presets& presets) {
  constexpr std::size_t indent = 21;
  constexpr std::size_t width = 100 - indent;
  std::string text = fmt::format("{:<12} {}\n", experiment.name, experiment.summary);
  for (const auto& [name, line] : presets) {
    std::vector<std::string> words;
    for (const auto& [option, value] : options_of_preset(line))
      words.push_back(option + " " + value);
    std::string margin = fmt::format("  {:<17}  ", name);
    for (const std::string& options : split(filled(words, width), '\n')) {
      text += margin + options + '\n';
      margin.assign(indent, ' ');
    }
  }
  return text;
}

}  // namespace

std::unique_ptr<Command> list_command(std::span<const Registration> commands) {
  return std::make_unique<TextCommand>([commands] {
    std::string text;
    for (const Registration& r : commands) {
      const std::unique_ptr<Command> command = r.make();
      OptionParser p{std::string(r.name), std::string(r.summary)};
      command->declare(p);
      if (!command->measures() && p.presets().empty()) continue;
      if (!text.empty()) text += '\n';
      text += listed(r, p.presets());
    }
    return text;
  });
}

// One line per dataset or attribute: group, name, unit, description, separated by tabs.
// docs/file-format.md is generated from it.
std::unique_ptr<Command> columns_command(std::span<const Registration> commands) {
  return std::make_unique<TextCommand>([commands] {
    std::string text;
    for (const Description& d : descriptions()) {
      text += fmt::format("{}\t{}\t{}\t{}\n", d.group, d.name, d.unit, d.text);
    }
    for (const Registration& r : commands) {
      for (const FactorNote& f : r.make()->factor_notes()) {
        text += fmt::format("factors of {}\t{}\t{}\t{}\n", r.name, f.name, f.unit, f.description);
      }
    }
    return text;
  });
}

std::unique_ptr<Command> merge_command() { return std::make_unique<MergeCommand>(); }

}  // namespace paceline
