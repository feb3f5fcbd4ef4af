#pragma once
// Constants of several tests.

#include <cstddef>
#include <limits>

namespace paceline {

inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

// Memory limit of a device on which nothing runs out of memory; bytes.
inline constexpr std::size_t plenty = std::size_t{1} << 30;

}  // namespace paceline
