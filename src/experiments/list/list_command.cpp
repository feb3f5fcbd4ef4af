// `paceline list`: every experiment with its presets and the options that they set.

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "core/screen.h"
#include "core/text.h"
#include "harness/command.h"

namespace paceline {

namespace {

// Its presets, one below the other, in lines of at most 100 columns.
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

class ListCommand final : public Command {
 public:
  explicit ListCommand(std::span<const Registration> commands) : commands_(commands) {}

  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& /*p*/) override {}
  [[nodiscard]] ExitCode run(Launch* /*launch*/) override {
    std::string text;
    for (const Registration& r : commands_) {
      const std::unique_ptr<Command> command = r.make();
      OptionParser p{std::string(r.name), std::string(r.summary)};
      command->declare(p);
      if (!command->measures() && p.presets().empty()) continue;
      if (!text.empty()) text += '\n';
      text += listed(r, p.presets());
    }
    write_out("{}", text);
    return ExitCode::done;
  }

 private:
  std::span<const Registration> commands_;
};

}  // namespace

std::unique_ptr<Command> list_command(std::span<const Registration> commands) {
  return std::make_unique<ListCommand>(commands);
}

}  // namespace paceline
