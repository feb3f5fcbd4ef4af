#pragma once
// Output to the screen. If it cannot be written (full disk, closed pipe), the run continues,
// because the results are in a file; main() reports at the end that output was lost.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace paceline {

template <class... Args>
void write_to(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stream);
}

template <class... Args>
void write_out(fmt::format_string<Args...> format, Args&&... args) {
  write_to(stdout, format, std::forward<Args>(args)...);
}

}  // namespace paceline
