// `paceline list`: every experiment with its presets and the options that they set.

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "core/screen.h"
#include "harness/command.h"

namespace paceline {

namespace {

constexpr std::size_t indent = 21;

// "--size xl", ...
using Words = std::vector<std::string>;

// Lines of at most 100 columns, each indented by `indent` spaces.
std::string wrapped(const Words& words) {
  constexpr std::size_t width = 100;
  const std::string margin(indent, ' ');
  std::string text;
  std::size_t column = width;
  for (const std::string& word : words) {
    if (column + 2 + word.size() > width) {
      text += text.empty() ? margin : "\n" + margin;
      column = indent;
    } else {
      text += "  ";
      column += 2;
    }
    text += word;
    column += word.size();
  }
  return text.empty() ? text : text + "\n";
}

std::string listed(const Registration& experiment, const Presets& presets) {
  std::string text = fmt::format("{:<12} {}\n", experiment.name, experiment.summary);
  for (const auto& [name, line] : presets) {
    Words words;
    for (const auto& [option, value] : options_of_preset(line)) {
      words.push_back(fmt::format("{} {}", option, value));
    }
    text += fmt::format("  {:<17}  {}", name, wrapped(words).substr(indent));
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
