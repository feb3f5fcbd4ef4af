#include "core/sensors.h"

#include <array>
#include <string_view>
#include <utility>

namespace paceline {

std::string name_of(ClockLimit limits) {
  constexpr std::array<std::pair<ClockLimit, std::string_view>, 3> names = {
      {{ClockLimit::power, "power"},
       {ClockLimit::thermal, "thermal"},
       {ClockLimit::hardware, "hardware"}}};
  std::string text;
  for (const auto& [limit, name] : names) {
    if (!has(limits, limit)) continue;
    if (!text.empty()) text += " and ";
    text += name;
  }
  return text;
}

}  // namespace paceline
