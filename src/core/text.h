#pragma once
// Text in lines.

#include <cstddef>
#include <string>
#include <vector>

namespace paceline {

[[nodiscard]] std::vector<std::string> split(const std::string& text, char at);

// Words in lines of at most `width` columns; a longer word has a line of its own.
[[nodiscard]] std::string filled(const std::vector<std::string>& words, std::size_t width);

// The same with the words of each line of a text, without a newline at the end.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width);
// In lines of the screen, of at most 100 columns.
[[nodiscard]] std::string wrapped(const std::string& text);

}  // namespace paceline
