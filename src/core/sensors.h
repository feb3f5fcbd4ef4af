#pragma once
// Sensors: what a device says of the conditions that it runs under.

#include <cstdint>
#include <string>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

struct Sensor {
  std::string name;    // "sm_clock"
  std::string symbol;  // of its unit, as column names end: "hz"
};

// What holds a device's clocks down; a set of bits.
enum class ClockLimit : std::uint8_t { none = 0, power = 1, thermal = 2, hardware = 4 };
constexpr ClockLimit operator|(ClockLimit a, ClockLimit b) {
  return static_cast<ClockLimit>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool has(ClockLimit limits, ClockLimit one) {
  return (static_cast<unsigned>(limits) & static_cast<unsigned>(one)) != 0;
}
// "power", "power and thermal"; empty for none.
[[nodiscard]] std::string name_of(ClockLimit limits);

struct Reading {
  std::vector<double> values;  // of each sensor; NaN where it cannot be read
  ClockLimit limits = ClockLimit::none;
};

class Sensors : NonCopyable {
 public:
  virtual ~Sensors() = default;

  [[nodiscard]] virtual const std::vector<Sensor>& sensors() const = 0;
  // Whether a reading can say what limits the clocks.
  [[nodiscard]] virtual bool tells_limits() const = 0;
  // Seconds between two readings, so that reading takes less than a thousandth of a core's time.
  [[nodiscard]] virtual double interval() const = 0;
  // From one thread at a time, which need not be the device's.
  [[nodiscard]] virtual Reading read() = 0;
};

}  // namespace paceline
