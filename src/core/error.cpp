#include "core/error.h"

#include <fmt/format.h>

namespace paceline {

std::string without_control_characters(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    constexpr unsigned char delete_character = 0x7f;
    if (c == '\n') {
      plain += "\\n";
    } else if (code < ' ' || code == delete_character) {
      plain += fmt::format("\\x{:02x}", code);
    } else {
      plain += c;
    }
  }
  return plain;
}

}  // namespace paceline
