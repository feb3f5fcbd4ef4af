#include "core/utf8.h"

#include <nlohmann/json.hpp>

namespace paceline {

bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace paceline
