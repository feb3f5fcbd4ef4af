#pragma once
// OptionParser: options by name with checked values, from the command line, a TOML file and a
// preset, in this order of precedence. It wraps CLI11, which option_parser.cpp alone includes.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/non_copyable.h"
#include "harness/option_file.h"
#include "measure/factors.h"

namespace paceline {

// Name ("--context") -> values as written, joined by commas; "true" for a flag.
using GivenOptions = std::map<std::string, std::string>;

// Named sweeps, each as its command line would be: "--size small --context 128,256". Of an option
// that stands in it twice, the last value counts.
using Presets = std::map<std::string, std::string>;
[[nodiscard]] GivenOptions options_of_preset(const std::string& line);

class OptionParser : NonCopyable {
 public:
  using Texts = std::vector<std::string>;
  // Gets the values as written. Throws UsageError without the option's name.
  using Convert = std::function<void(const Texts&)>;

  // `usage`: what --help prints above the options.
  OptionParser(const std::string& experiment, const std::string& usage);
  ~OptionParser();

  // An option whose values, whatever they are, go to `convert`.
  void option(const std::string& name, const std::string& help, const Convert& convert,
              const OptionTraits& traits = {});

  // An option of one value, of any type that a factor may have. The target's value at this call is
  // the default.
  template <class T>
  void value(const std::string& name, T& target, const std::string& help, Range range = {}) {
    const auto convert = [&target, range](const Texts& t) {
      if (single(t).empty()) throw UsageError("needs a value");
      target = FactorValue<T>::read(t.front(), range);
    };
    option(name, help, convert, {.type = FactorValue<T>::type});
  }
  void flag(const std::string& name, bool& target, const std::string& help);
  void files(std::vector<std::string>& target, int least, int most, const std::string& help);

  // What --help prints below the options.
  void note(std::string_view text);

  // --config F.toml, whose values hold where the command line does not say, and --print-config.
  void config_file();
  // --preset NAME: option values that apply where neither the command line nor the file says.
  // `excludes`: an option that, when given, takes the place of another of the preset. Throws
  // InternalError for an option of a preset that is not declared.
  void presets(const Presets& presets, const std::map<std::string, std::string>& excludes);

  [[nodiscard]] const Presets& presets() const;

  [[nodiscard]] bool given(const std::string& name) const;
  // Given, and not by the preset. A file that repeats a value of the preset adds nothing to it.
  [[nodiscard]] bool by_name(const std::string& name) const;
  [[nodiscard]] std::string help() const;
  // --print-config is among the arguments.
  [[nodiscard]] bool asks_for_file() const;
  // After parsing: a TOML file that --config reads as what is given; defaults are comments.
  [[nodiscard]] std::string as_file() const;
  // False when --help was among the arguments (not printed). `as_written` receives the options that
  // the command line, the file and the preset give. Throws UsageError.
  [[nodiscard]] bool parse(const std::vector<std::string>& arguments, GivenOptions& as_written);

  // Throws UsageError unless there is one value.
  [[nodiscard]] static const std::string& single(const Texts& texts);
  // "a,b" -> a, b; of every text. Throws UsageError for an empty value.
  [[nodiscard]] static Texts split(const Texts& texts);

 private:
  struct Impl;

  [[nodiscard]] bool excluded(const std::string& name) const;
  void parse_command_line(const std::vector<std::string>& arguments);
  void parse_file();
  void apply_preset();
  void convert(const std::string& name) const;
  [[nodiscard]] std::string unknown_option(const std::string& name, std::string_view dashes) const;

  std::unique_ptr<Impl> impl_;
  std::string experiment_;
};

}  // namespace paceline
