#pragma once
// Values of options in TOML files.

#include <string>
#include <vector>

#include "core/toml.h"
#include "measure/factors.h"

namespace paceline {

// "a,b", "c" -> "a", "b", "c"; empty parts are kept.
[[nodiscard]] std::vector<std::string> parts_of(const std::vector<std::string>& texts);

struct OptionTraits {
  ValueType type = ValueType::text;
  bool list = false;                // takes several values
  std::string implicit_value = {};  // its value when it is given without one
  std::string default_value = {};   // its default; empty: none
};

// The entry's values as the command line would have them. An option that takes numbers accepts
// numbers; a flag, or an option that takes yes, no or nothing, accepts booleans; all options but
// flags accept strings; an option that takes a list accepts arrays of these. Throws UsageError for
// other types: "F.toml:3:5: context: what is wrong".
[[nodiscard]] std::vector<std::string> option_texts(const TomlDocument& file,
                                                    const TomlEntry& entry,
                                                    const OptionTraits& traits);

// "context = [128, 256]", which option_texts() reads as `texts`.
[[nodiscard]] std::string option_line(const std::string& key, const std::vector<std::string>& texts,
                                      const OptionTraits& traits);

// Whether two spellings of an option's values are equal, such as "1e-8" and "1e-08".
[[nodiscard]] bool same_values(const std::vector<std::string>& a,
                               const std::vector<std::string>& b);

}  // namespace paceline
