#pragma once
#include <cstddef>

namespace paceline {

// Bytes that this machine can still give without swapping: MemAvailable, or less where a control
// group (v2 or v1) limits this process. Throws EnvironmentError when neither can be read.
[[nodiscard]] std::size_t available_memory();

// Bytes of all last-level caches together; 0 where the system does not say.
[[nodiscard]] std::size_t last_level_cache();

}  // namespace paceline
