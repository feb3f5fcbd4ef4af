#pragma once
// Sensors: a device's readings of its clocks and other conditions.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

struct Sensor {
  std::string name;    // "sm_clock"
  std::string symbol;  // of the unit, as the suffix of column names: "hz"
};

// Reasons why a device's clocks are reduced; a set of bits.
enum class ClockLimit : std::uint8_t { none = 0, power = 1, thermal = 2, hardware = 4 };
constexpr ClockLimit operator|(ClockLimit a, ClockLimit b) {
  return static_cast<ClockLimit>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool has(ClockLimit limits, ClockLimit one) {
  return (static_cast<unsigned>(limits) & static_cast<unsigned>(one)) != 0;
}
// "power", "power and thermal"; empty for none.
[[nodiscard]] inline std::string name_of(ClockLimit limits) {
  std::string text;
  for (const auto& [limit, name] :
       {std::pair{ClockLimit::power, "power"}, std::pair{ClockLimit::thermal, "thermal"},
        std::pair{ClockLimit::hardware, "hardware"}}) {
    if (has(limits, limit)) text += (text.empty() ? "" : " and ") + std::string(name);
  }
  return text;
}

struct Reading {
  std::vector<double> values;  // by sensor; NaN if it cannot be read
  ClockLimit limits = ClockLimit::none;
};

class Sensors : NonCopyable {
 public:
  virtual ~Sensors() = default;

  [[nodiscard]] virtual const std::vector<Sensor>& sensors() const = 0;
  // Whether readings contain the limits of the clocks.
  [[nodiscard]] virtual bool tells_limits() const = 0;
  // Seconds between two readings, chosen so that reading takes less than 0.1% of a core's time.
  [[nodiscard]] virtual double interval() const = 0;
  // One thread at a time may call it; it need not be the device's thread.
  [[nodiscard]] virtual Reading read() = 0;
};

}  // namespace paceline
