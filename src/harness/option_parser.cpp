#include "harness/option_parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

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

// Given without a value; a file writes that as true.
bool is_bare(const Texts& texts) {
  return texts.empty() || texts.front().empty() || texts.front() == "true";
}

}  // namespace

GivenOptions options_of_preset(const std::string& line) {
  GivenOptions options;
  std::istringstream words(line);
  for (std::string name, value; words >> name;) {
    if (!name.starts_with("--") || !(words >> value) || value.starts_with("--")) {
      throw InternalError(fmt::format("a preset is not options with a value each: {}", line));
    }
    options[name] = value;
  }
  return options;
}

struct OptionParser::Impl {
  struct Entry {
    CLI::Option* option;
    Texts raw;
    OptionParser::Convert convert;
  };

  CLI::App app;
  std::map<std::string, Entry> entries;
  Presets presets;
  std::map<std::string, std::string> excludes;
  std::string preset;
  std::set<std::string> from_preset;
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
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      if (end == begin) throw UsageError("has an empty value");
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

void OptionParser::option(const std::string& name, const std::string& help, const Convert& convert,
                          const std::string& bare) {
  Impl::Entry& entry = impl_->entries[name];
  entry.convert = [convert, bare](const Texts& t) {
    convert(!bare.empty() && is_bare(t) ? Texts{bare} : t);
  };
  entry.option = impl_->app.add_option(name, entry.raw, help);
  entry.option->allow_extra_args(false)->type_name("");
  if (!bare.empty()) entry.option->expected(0, 1);
}

void OptionParser::flag(const std::string& name, bool& target, const std::string& help) {
  Impl::Entry& entry = impl_->entries[name];
  entry.convert = [&target](const Texts& t) { target = FactorValue<bool>::read(t.back(), {}); };
  entry.option = impl_->app.add_flag(name, entry.raw, help);
}

void OptionParser::files(Texts& target, std::size_t count, const std::string& help) {
  impl_->app.add_option("files", target, help)
      ->required()
      ->expected(static_cast<int>(count))
      ->type_name("F.h5");
}

void OptionParser::config_file() {
  impl_->app.set_config("--config", "", "options from a TOML file, by their names without --");
  impl_->app.allow_config_extras(CLI::config_extras_mode::error);
}

void OptionParser::presets(const Presets& presets,
                           const std::map<std::string, std::string>& excludes) {
  impl_->presets = presets;
  impl_->excludes = excludes;
  Texts names;
  for (const auto& [name, line] : presets) {
    names.push_back(name);
    for (const auto& [option, _] : options_of_preset(line)) {
      if (impl_->entries.count(option) > 0) continue;
      throw InternalError(fmt::format("preset '{}': {} is no option", name, option));
    }
  }
  option("--preset",
         fmt::format("{}: a named sweep; options given beside it replace its values",
                     fmt::join(names, ", ")),
         [this, names](const Texts& t) {
           const std::vector<std::string_view> choices(names.begin(), names.end());
           impl_->preset = names[index_of_name(choices, single(t))];
         });
}

bool OptionParser::excluded(const std::string& name) const {
  return std::any_of(impl_->excludes.begin(), impl_->excludes.end(),
                     [&](const auto& pair) { return pair.second == name && given(pair.first); });
}

bool OptionParser::by_name(const std::string& name) const {
  return given(name) && impl_->from_preset.count(name) == 0;
}

bool OptionParser::given(const std::string& name) const {
  return impl_->entries.at(name).option->count() > 0;
}

std::string OptionParser::help() const { return impl_->app.help(); }

std::string OptionParser::unknown_option(const std::string& name) const {
  const std::string bare = name.substr(0, name.find('='));
  return fmt::format("{}: '{}' does not know it; see paceline {} --help", bare, experiment_,
                     experiment_);
}

void OptionParser::parse_once(const Texts& arguments) {
  Texts reversed(arguments.rbegin(), arguments.rend());
  try {
    impl_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    throw;
  } catch (const CLI::ExtrasError&) {
    throw UsageError(unknown_option(impl_->app.remaining().front()));
  } catch (const CLI::FileError& error) {
    throw UsageError(fmt::format("--config: {}", error.what()));
  } catch (const CLI::ConfigError& error) {
    throw UsageError(
        fmt::format("--config: {}: its lines are name = value, by the names of paceline "
                    "{} --help",
                    one_line(error.what()), experiment_));
  } catch (const CLI::ArgumentMismatch& error) {
    throw UsageError(
        fmt::format("{}; see paceline {} --help", one_line(error.what()), experiment_));
  } catch (const CLI::ParseError& error) {
    throw UsageError(one_line(error.what()));
  }
}

bool OptionParser::parse(const Texts& arguments, GivenOptions& as_written) {
  try {
    parse_once(arguments);
    const auto preset = impl_->entries.find("--preset");
    if (preset != impl_->entries.end() && preset->second.option->count() > 0) {
      preset->second.convert(preset->second.raw);
      Texts all;
      for (const auto& [name, value] : options_of_preset(impl_->presets.at(impl_->preset))) {
        if (given(name) || excluded(name)) continue;
        all.push_back(name + "=" + value);
        impl_->from_preset.insert(name);
      }
      all.insert(all.end(), arguments.begin(), arguments.end());
      parse_once(all);
    }
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const UsageError& error) {
    const bool bad_preset = !impl_->presets.empty() && impl_->preset.empty() &&
                            impl_->entries.at("--preset").option->count() > 0;
    if (bad_preset) throw UsageError(std::string("--preset: ") + error.what());
    throw;
  }
  for (const auto& [name, entry] : impl_->entries) {
    if (entry.option->count() == 0) continue;
    try {
      entry.convert(entry.raw);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", name, error.what()));
    }
  }
  for (const CLI::Option* option : impl_->app.get_options()) {
    // The options that the file holds are listed themselves.
    const bool is_file = option == impl_->app.get_config_ptr();
    if (option->count() > 0 && !is_file) {
      as_written[option->get_name()] = fmt::format("{}", fmt::join(option->results(), ","));
    }
  }
  return true;
}

}  // namespace paceline
