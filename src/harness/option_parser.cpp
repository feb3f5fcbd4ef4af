#include "harness/option_parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "core/enum_names.h"

namespace paceline {

namespace {

using Texts = OptionParser::Texts;

std::string one_line(std::string text) {
  constexpr std::string_view lacking = "1 required  missing";
  if (text.ends_with(lacking))
    text.replace(text.size() - lacking.size(), lacking.size(), "needs a value");
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.find_last_of(" .+") == text.size() - 1) text.pop_back();
  return text;
}

constexpr std::string_view config_option = "--config";
constexpr std::string_view print_option = "--print-config";

}  // namespace

GivenOptions options_of_preset(const std::string& line) {
  GivenOptions options;
  std::istringstream words(line);
  for (std::string name, value; words >> name;) {
    if (!name.starts_with("--") || !(words >> value) || value.starts_with("--")) {
      throw InternalError(fmt::format("each option of a preset needs a value: {}", line));
    }
    options[name] = value;
  }
  return options;
}

// The source of an option's values.
enum class Source : std::uint8_t { none, command_line, file, preset };

struct OptionParser::Impl {
  struct Entry {
    CLI::Option* option;
    OptionParser::Convert convert;
    OptionTraits traits;
    Texts texts;
    Source source = Source::none;
    std::string place;  // in messages: "--context" or "--config: F.toml:3:5: context"

    // An option given without a value, or with true in the file, has its implicit one.
    [[nodiscard]] Texts values() const {
      const bool bare = texts == Texts{""} || texts == Texts{"true"} || texts == Texts{"yes"};
      return bare && !traits.implicit_value.empty() ? Texts{traits.implicit_value} : texts;
    }
  };

  [[nodiscard]] bool gives(Source source, const std::string& name) const {
    const auto it = entries.find(name);
    return it != entries.end() && it->second.source == source;
  }
  CLI::App app;
  std::map<std::string, Entry> entries;
  std::vector<std::string> order;  // of declaration
  Presets presets;
  std::map<std::string, std::string> excludes;
  std::string file;  // --config
  bool asks_for_file = false;
};

OptionParser::OptionParser(const std::string& experiment, const std::string& usage)
    : impl_(std::make_unique<Impl>()), experiment_(experiment) {
  impl_->app.description(usage);
  impl_->app.name("paceline " + experiment);
}

OptionParser::~OptionParser() = default;

const std::string& OptionParser::single(const Texts& texts) {
  if (texts.size() != 1) throw UsageError("takes one value");
  return texts.front();
}

Texts OptionParser::split(const Texts& texts) {
  Texts parts;
  for (const std::string& text : texts) {
    std::istringstream list(text + ',');
    for (std::string part; std::getline(list, part, ',');) parts.push_back(part);
  }
  const auto is_empty = [](const std::string& part) { return part.empty(); };
  if (parts.empty() || std::ranges::any_of(parts, is_empty)) throw UsageError("has an empty value");
  return parts;
}

void OptionParser::option(const std::string& name, const std::string& help, const Convert& convert,
                          const OptionTraits& traits) {
  Impl::Entry& entry = impl_->entries[name];
  impl_->order.push_back(name);
  entry.traits = traits;
  entry.convert = convert;
  entry.place = name;
  entry.option = impl_->app.add_option(name, entry.texts, help);
  entry.option->allow_extra_args(false)->type_name("");
  if (!traits.implicit_value.empty()) entry.option->expected(0, 1);
}

void OptionParser::flag(const std::string& name, bool& target, const std::string& help) {
  Impl::Entry& entry = impl_->entries[name];
  impl_->order.push_back(name);
  entry.traits = {.type = ValueType::yes_no, .default_value = "no"};
  entry.place = name;
  entry.convert = [&target](const Texts& t) { target = FactorValue<bool>::read(t.back(), {}); };
  entry.option = impl_->app.add_flag(name, entry.texts, help);
}

void OptionParser::file(std::string& target, const std::string& help) {
  impl_->app.add_option("file", target, help)->required()->type_name("F.h5");
}

void OptionParser::config_file() {
  value(std::string(config_option), impl_->file,
        "options from a TOML 1.0 file, by their names without --");
  flag(std::string(print_option), impl_->asks_for_file,
       "print the given options as a TOML file; run nothing");
}

void OptionParser::presets(const Presets& presets,
                           const std::map<std::string, std::string>& excludes) {
  impl_->presets = presets;
  impl_->excludes = excludes;
  Texts names;
  for (const auto& [name, _] : presets) names.push_back(name);
  option(
      "--preset",
      fmt::format("{}: a named sweep; other options override its values", fmt::join(names, ", ")),
      [names](const Texts& t) {
        const std::vector<std::string_view> choices(names.begin(), names.end());
        (void)index_of_name(choices, single(t));
      },
      {.type = ValueType::name});
}

void OptionParser::note(std::string_view text) { impl_->app.footer(std::string(text)); }

const Presets& OptionParser::presets() const { return impl_->presets; }

bool OptionParser::excluded(const std::string& name) const {
  return std::any_of(impl_->excludes.begin(), impl_->excludes.end(),
                     [&](const auto& pair) { return pair.second == name && by_name(pair.first); });
}

bool OptionParser::by_name(const std::string& name) const {
  return impl_->gives(Source::command_line, name) || impl_->gives(Source::file, name);
}

bool OptionParser::given(const std::string& name) const {
  return impl_->entries.at(name).source != Source::none;
}

GivenOptions OptionParser::of_preset() const {
  GivenOptions options;
  for (const auto& [name, entry] : impl_->entries) {
    if (entry.source == Source::preset) options[name] = text(name);
  }
  return options;
}

std::string OptionParser::text(const std::string& name) const {
  return fmt::format("{}", fmt::join(impl_->entries.at(name).texts, ","));
}

std::string OptionParser::help() const { return impl_->app.help(); }

bool OptionParser::asks_for_file() const { return impl_->asks_for_file; }

std::string OptionParser::unknown_option(const std::string& name) const {
  if (!name.starts_with('-')) {
    return fmt::format(
        "{}: unexpected; options begin with --, lists have commas (a,b); see paceline {} --help",
        name, experiment_);
  }
  const std::string bare = name.substr(0, name.find('='));
  const std::vector<std::string_view> names(impl_->order.begin(), impl_->order.end());
  return fmt::format("{}: unknown option of '{}'; see paceline {} --help{}", bare, experiment_,
                     experiment_, did_you_mean(bare, names));
}

bool OptionParser::parse_command_line(const Texts& arguments) {
  Texts reversed(arguments.rbegin(), arguments.rend());
  try {
    impl_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ExtrasError&) {
    throw UsageError(unknown_option(impl_->app.remaining().front()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(
        fmt::format("{}; see paceline {} --help", one_line(error.what()), experiment_));
  }
  for (auto& [name, entry] : impl_->entries) {
    if (entry.option->count() > 0) entry.source = Source::command_line;
  }
  return true;
}

void OptionParser::parse_file() {
  if (!impl_->gives(Source::command_line, std::string(config_option))) return;
  convert(std::string(config_option));
  try {
    for (FileOption& option : read_option_file(impl_->file)) {
      const std::string name = "--" + option.key;
      const std::string place = fmt::format("{}: {}", option.place, option.key);
      const auto it = impl_->entries.find(name);
      if (it == impl_->entries.end()) {
        throw UsageError(fmt::format("{}: {}", option.place, unknown_option(name)));
      }
      if (name == config_option || name == print_option) {
        throw UsageError(place + ": belongs on the command line");
      }
      Impl::Entry& entry = it->second;
      if (entry.source != Source::none) continue;
      entry.texts = std::move(option.texts);
      entry.source = Source::file;
      entry.place = fmt::format("{}: {}", config_option, place);
    }
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", config_option, error.what()));
  }
}

void OptionParser::apply_preset() {
  const auto preset = impl_->entries.find("--preset");
  if (preset == impl_->entries.end() || preset->second.source == Source::none) return;
  convert("--preset");
  const std::string& line = impl_->presets.at(preset->second.texts.front());
  for (const auto& [name, value] : options_of_preset(line)) {
    Impl::Entry& entry = impl_->entries.at(name);
    if (entry.source != Source::none || excluded(name)) continue;
    entry.texts = {value};
    entry.source = Source::preset;
  }
}

void OptionParser::convert(const std::string& name) const {
  const Impl::Entry& entry = impl_->entries.at(name);
  try {
    entry.convert(entry.values());
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", entry.place, error.what()));
  }
}

bool OptionParser::parse(const Texts& arguments, GivenOptions& as_written) {
  if (!parse_command_line(arguments)) return false;
  parse_file();
  apply_preset();
  for (const auto& [name, entry] : impl_->entries) {
    if (entry.source == Source::none) continue;
    convert(name);
    // The options of the file are listed, not the file.
    if (name == config_option) continue;
    as_written[name] = text(name);
  }
  return true;
}

std::string OptionParser::as_file() const {
  std::string given = fmt::format("# Options of paceline {}, for --config.\n", experiment_);
  std::string others;
  for (const std::string& name : impl_->order) {
    const Impl::Entry& entry = impl_->entries.at(name);
    if (name == config_option || name == print_option) continue;
    const bool has_values = entry.source != Source::none;
    if (!has_values && (entry.traits.default_value.empty() || excluded(name))) continue;
    const Texts texts = has_values ? entry.values() : Texts{entry.traits.default_value};
    const std::string line =
        option_line(name.substr(2), entry.traits.list ? split(texts) : texts, entry.traits.type);
    (by_name(name) ? given : others) += (by_name(name) ? "" : "# ") + line + "\n";
  }
  return given + (others.empty() ? "" : "\n# Of the preset, and defaults:\n" + others);
}

}  // namespace paceline
