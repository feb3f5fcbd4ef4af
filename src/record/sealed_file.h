#pragma once
// Files that end with a digest of what precedes it, so that damage is found before HDF5 reads it.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

// 64-bit FNV-1a.
[[nodiscard]] std::uint64_t digest(std::string_view bytes);

// The bytes, followed by their digest. HDF5 ignores what follows its data.
[[nodiscard]] std::string sealed(std::string_view bytes);

// The bytes that were sealed; nullopt if the file is no longer what was sealed. Throws UsageError
// if it cannot be read.
[[nodiscard]] std::optional<std::string> unsealed(const std::filesystem::path& path);

}  // namespace paceline
