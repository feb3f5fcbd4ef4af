#pragma once
#include <cstddef>
#include <filesystem>

namespace paceline {

// Bytes that this process can still allocate without swapping: the smaller of MemAvailable
// (/proc/meminfo) and what its control groups (v2 or v1) leave. Throws EnvironmentError if neither
// can be read. root: "/", or another folder in tests.
[[nodiscard]] std::size_t available_memory(const std::filesystem::path& root = "/");

// Total bytes of all last-level caches, from /sys/devices/system/cpu; 0 if not listed there.
[[nodiscard]] std::size_t last_level_cache(const std::filesystem::path& root = "/");

}  // namespace paceline
