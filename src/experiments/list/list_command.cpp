// `paceline list`: every experiment with its presets and the options that they set.

#include <fmt/format.h>

#include <algorithm>
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

bool in_all(const Presets& presets, const std::string& option, const std::string& value) {
  return std::all_of(presets.begin(), presets.end(), [&](const auto& preset) {
    const GivenOptions values = options_of_preset(preset.second);
    const auto it = values.find(option);
    return it != values.end() && it->second == value;
  });
}

// Those options of a preset that have the same value in all presets (alike), or the others.
Words pinned(const Presets& presets, const std::string& line, bool alike) {
  Words words;
  for (const auto& [option, value] : options_of_preset(line)) {
    const bool common = presets.size() > 1 && in_all(presets, option, value);
    if (common == alike) words.push_back(fmt::format("{} {}", option, value));
  }
  return words;
}

std::string listed(const Registration& experiment, const Presets& presets) {
  std::string text = fmt::format("{:<12} {}\n", experiment.name, experiment.summary);
  for (const auto& [name, line] : presets) {
    const std::string values = wrapped(pinned(presets, line, false));
    text += fmt::format("  {:<17}  {}", name,
                        values.substr(std::min<std::size_t>(indent, values.size())));
  }
  if (presets.size() > 1) {
    text += "  all of these\n" + wrapped(pinned(presets, presets.begin()->second, true));
  }
  return text;
}

class ListCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& /*p*/) override {}
  [[nodiscard]] ExitCode run(World* /*world*/, const std::string& /*line*/) override {
    std::string text;
    for (const Registration& r : registry()) {
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
};

}  // namespace

std::unique_ptr<Command> list_command() { return std::make_unique<ListCommand>(); }

}  // namespace paceline
