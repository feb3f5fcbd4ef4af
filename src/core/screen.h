#pragma once
// Text for the screen. Where it cannot be written (a full disk, a closed pipe) the run goes on,
// since its results are in a file: main() says at the end that output was lost.

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
