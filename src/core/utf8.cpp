#include "core/utf8.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace paceline {

namespace {

// First bytes of a code point, and the range of the second: RFC 3629, section 4. Later ones are 80
// to BF.
struct Form {
  std::uint8_t first, last;  // first bytes
  std::size_t length;        // bytes
  std::uint8_t least, most;  // second bytes
};

constexpr std::array<Form, 9> forms = {{{0x00, 0x7f, 1, 0, 0},
                                        {0xc2, 0xdf, 2, 0x80, 0xbf},
                                        {0xe0, 0xe0, 3, 0xa0, 0xbf},
                                        {0xe1, 0xec, 3, 0x80, 0xbf},
                                        {0xed, 0xed, 3, 0x80, 0x9f},
                                        {0xee, 0xef, 3, 0x80, 0xbf},
                                        {0xf0, 0xf0, 4, 0x90, 0xbf},
                                        {0xf1, 0xf3, 4, 0x80, 0xbf},
                                        {0xf4, 0xf4, 4, 0x80, 0x8f}}};

// The bytes of the first code point; 0 if there is none.
std::size_t first_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto* form = std::find_if(forms.begin(), forms.end(), [&](const Form& f) {
    return byte(0) >= f.first && byte(0) <= f.last;
  });
  if (form == forms.end() || text.size() < form->length) return 0;
  if (form->length > 1 && (byte(1) < form->least || byte(1) > form->most)) return 0;
  for (std::size_t i = 2; i < form->length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return form->length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = first_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace paceline
