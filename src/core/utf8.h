#pragma once
// Texts of result files are UTF-8; arguments and names of files can be any bytes.

#include <string_view>

namespace paceline {

[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace paceline
