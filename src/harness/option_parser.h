#pragma once
// OptionParser: options by name with checked values, from the command line, a TOML file and a
// preset, in this order of precedence. It wraps CLI11, which option_parser.cpp alone includes.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// Name ("--context") -> values as written, joined by commas; "true" for a flag.
using GivenOptions = std::map<std::string, std::string>;

class OptionParser {
 public:
  // `usage`: what --help prints above the options.
  OptionParser(const std::string& experiment, const std::string& usage);
  ~OptionParser();
  OptionParser(const OptionParser&) = delete;
  OptionParser& operator=(const OptionParser&) = delete;

  // Each names an option and where its value goes; the target's value at this call is the default.
  // `later`: values that are known but not built yet.
  // A vector target takes a list ("128,256"), an axis of the sweep.
  void integer(const std::string& name, std::int64_t& target, std::int64_t least, std::int64_t most,
               const std::string& help);
  void integer(const std::string& name, int& target, int least, int most, const std::string& help);
  void integers(const std::string& name, std::vector<std::int64_t>& target, std::int64_t least,
                std::int64_t most, const std::string& help);
  void real(const std::string& name, double& target, double least, double most,
            const std::string& help);
  void reals(const std::string& name, std::vector<double>& target, double least, double most,
             const std::string& help);
  void choice(const std::string& name, std::string& target, const std::vector<std::string>& allowed,
              const std::string& help);
  void choices(const std::string& name, std::vector<std::string>& target,
               const std::vector<std::string>& allowed, const std::string& help,
               const std::vector<std::string>& later = {});
  // `bare` where it is given without a value.
  void optional_choices(const std::string& name, std::vector<std::string>& target,
                        const std::string& bare, const std::vector<std::string>& allowed,
                        const std::string& help);
  void optional_integer(const std::string& name, int& target, int bare, int least, int most,
                        const std::string& help);
  void text(const std::string& name, std::string& target, const std::string& help);
  void flag(const std::string& name, bool& target, const std::string& help);
  // Anything else: `convert` gets the values as written and throws UsageError without the name.
  void custom(const std::string& name, const std::string& help,
              const std::function<void(const std::vector<std::string>&)>& convert);
  void files(std::vector<std::string>& target, std::size_t count, const std::string& help);

  // --config F.toml
  void config_file();
  // --preset NAME: option values that apply where neither the command line nor the file says.
  // `excludes`: an option that, when given, takes the place of another of the preset.
  void presets(const std::map<std::string, std::vector<std::string>>& presets,
               const std::map<std::string, std::string>& excludes);
  // Options of the contract that no part of the program serves yet: refused as such.
  void not_built(std::vector<std::string> names) { not_built_ = std::move(names); }

  [[nodiscard]] bool given(const std::string& name) const;
  // Given, and not by the preset.
  [[nodiscard]] bool by_name(const std::string& name) const;
  [[nodiscard]] std::string help() const;
  // False when --help was among the arguments (not printed). `as_written` receives the options that
  // the command line, the file and the preset give. Throws UsageError.
  [[nodiscard]] bool parse(const std::vector<std::string>& arguments, GivenOptions& as_written);

 private:
  struct Impl;

  // `convert` gets the values with their commas.
  void whole(const std::string& name, const std::string& help,
             std::function<void(const std::vector<std::string>&)> convert);
  [[nodiscard]] bool excluded(const std::string& name) const;
  void parse_once(const std::vector<std::string>& arguments);
  [[nodiscard]] std::string unknown_option(const std::string& name) const;

  std::unique_ptr<Impl> impl_;
  std::string experiment_;
  std::vector<std::string> not_built_;
};

}  // namespace paceline
