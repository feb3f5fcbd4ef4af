#pragma once
// OptionParser: options by name with checked values, from the command line, a TOML file and a
// preset, in this order of precedence. It wraps CLI11, which option_parser.cpp alone includes;
// option_file.cpp reads and writes the file.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/non_copyable.h"
#include "measure/factors.h"

namespace paceline {

// Name ("--context") -> values as written, comma-separated; "true" for a flag.
using GivenOptions = std::map<std::string, std::string>;

// Named sweeps, each written as a command line: "--size small --context 128,256". The last value of
// a repeated option counts.
using Presets = std::map<std::string, std::string>;
[[nodiscard]] GivenOptions options_of_preset(const std::string& line);

struct OptionTraits {
  ValueType type = ValueType::text;
  bool list = false;                // takes several values
  std::string implicit_value = {};  // its value when it is given without one
  std::string default_value = {};   // its default; empty: none
};

class OptionParser : NonCopyable {
 public:
  using Texts = std::vector<std::string>;
  // Takes the values as written. Throws UsageError; its text lacks the option's name.
  using Convert = std::function<void(const Texts&)>;

  // `usage`: what --help prints above the options.
  OptionParser(const std::string& experiment, const std::string& usage);
  ~OptionParser();

  // An option whose values are passed to `convert`.
  void option(const std::string& name, const std::string& help, const Convert& convert,
              const OptionTraits& traits = {});

  // An option with one value, of any type that a factor may have. The present value of `target` is
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
  void file(std::string& target, const std::string& help);

  // Text that --help prints below the options.
  void note(std::string_view text);

  // --config F.toml, with values for options that the command line does not have, and
  // --print-config.
  void config_file();
  // --preset NAME: values of options that neither the command line nor the file has. `excludes`:
  // option given -> option of the preset that it replaces.
  void presets(const Presets& presets, const std::map<std::string, std::string>& excludes);

  [[nodiscard]] const Presets& presets() const;

  [[nodiscard]] bool given(const std::string& name) const;
  // Given by the command line or the file.
  [[nodiscard]] bool by_name(const std::string& name) const;
  // The options that only the preset gives.
  [[nodiscard]] GivenOptions of_preset() const;
  // The option's values as written, comma-separated; empty if it was not given.
  [[nodiscard]] std::string text(const std::string& name) const;
  [[nodiscard]] std::string help() const;
  // --print-config is among the arguments.
  [[nodiscard]] bool asks_for_file() const;
  // After parsing: a TOML file with the options given by name, readable by --config; those of the
  // preset and the defaults are comments.
  [[nodiscard]] std::string as_file() const;
  // False if --help is among the arguments (it is not printed). `as_written` receives the options
  // given by the command line, the file and the preset. Throws UsageError.
  [[nodiscard]] bool parse(const std::vector<std::string>& arguments, GivenOptions& as_written);

  // Throws UsageError unless there is exactly one value.
  [[nodiscard]] static const std::string& single(const Texts& texts);
  // Splits every text: "a,b" -> a, b. Throws UsageError for an empty value.
  [[nodiscard]] static Texts split(const Texts& texts);

 private:
  struct Impl;

  [[nodiscard]] bool excluded(const std::string& name) const;
  // False for --help.
  [[nodiscard]] bool parse_command_line(const Texts& arguments);
  void parse_file();
  void apply_preset();
  void convert(const std::string& name) const;
  [[nodiscard]] std::string unknown_option(const std::string& name) const;

  std::unique_ptr<Impl> impl_;
  std::string experiment_;
};

// A value in the file of --config.
struct FileOption {
  std::string key;
  std::string place;               // "F.toml:3:5"
  std::vector<std::string> texts;  // its values as arguments have them
};

// Throws UsageError for what is not TOML, and for values other than text, numbers, booleans and
// arrays of these.
[[nodiscard]] std::vector<FileOption> read_option_file(const std::string& file);

// "context = [128, 256]", which read_option_file() reads as `texts`.
[[nodiscard]] std::string option_line(const std::string& key, const std::vector<std::string>& texts,
                                      ValueType type);

}  // namespace paceline
