#pragma once
// How TOML files write the values of options.

#include <string>
#include <vector>

#include "core/toml.h"
#include "measure/factors.h"

namespace paceline {

// "a,b", "c" -> "a", "b", "c"; empty parts included.
[[nodiscard]] std::vector<std::string> parts_of(const std::vector<std::string>& texts);

// Of an option.
struct OptionTraits {
  ValueType type = ValueType::text;
  bool list = false;          // takes several values
  std::string bare = {};      // stands for the value of one that is given without any
  std::string standard = {};  // the value where it is not given; empty: there is none
};

// The entry's values as the command line would give them: a number where the option takes numbers,
// a boolean where it is a flag or takes yes and no (or nothing), a string everywhere but there, an
// array of these where it takes a list. Throws UsageError, "F.toml:3:5: context: what is wrong",
// for other types.
[[nodiscard]] std::vector<std::string> option_texts(const TomlDocument& file,
                                                    const TomlEntry& entry,
                                                    const OptionTraits& traits);

// "context = [128, 256]": what option_texts() reads as `texts` again.
[[nodiscard]] std::string option_line(const std::string& key, const std::vector<std::string>& texts,
                                      const OptionTraits& traits);

// Whether two ways of writing an option's values mean the same: "1e-8" and "1e-08".
[[nodiscard]] bool same_values(const std::vector<std::string>& a,
                               const std::vector<std::string>& b);

}  // namespace paceline
