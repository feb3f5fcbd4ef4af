#pragma once
// Text in UTF-8 and in lines.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/screen.h"

namespace paceline {

// Texts of result files are UTF-8; arguments and names of files can be any bytes.
[[nodiscard]] bool is_utf8(std::string_view text);

[[nodiscard]] std::vector<std::string> split(const std::string& text, char at);

// Words in lines of at most `width` columns; a longer word has a line of its own.
[[nodiscard]] std::string filled(const std::vector<std::string>& words, std::size_t width);

// The same with the words of each line of a text, without a newline at the end.
[[nodiscard]] std::string wrapped(const std::string& text,
                                  std::size_t width = std::min(usual_columns, screen_columns()));

}  // namespace paceline
