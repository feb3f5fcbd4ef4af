#pragma once
// Values of options in TOML files.

#include <string>
#include <vector>

#include "measure/factors.h"

namespace paceline {

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
