#pragma once
// The devices of a plan: those of the vendors' data sheets and of the user's file.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/data_sheet.h"
#include "core/ops.h"

namespace paceline {

inline constexpr double giga = 1e9;
inline constexpr double gibi = 0x1p30;

// Throws UsageError naming --peak-tflops if the sheet has no figure for this precision.
[[nodiscard]] double peak_flops_per_s(const DataSheet& device, const Precision& precision);
// The peak of attention's products, whose arithmetic may be another.
[[nodiscard]] double attention_flops_per_s(const DataSheet& device, const OpsConfig& config);
// The rate in bytes/s of a ring of `devices` devices along one mesh axis. `rings` such rings run
// concurrently; rings across nodes share the node's network cards.
[[nodiscard]] double bandwidth_bytes_per_s(const DataSheet& device, std::int64_t devices,
                                           int rings = 1);

// Whether `device`, the name of a GPU in a result file, is that of the name: "NVIDIA H200" is the
// data sheets' h200.
[[nodiscard]] bool is_device(std::string_view device, std::string_view name);

// The devices of a TOML file (empty: no file), then those of the data sheets that suffice for a
// plan and that the file does not replace. Throws UsageError for a missing key, a wrong type or a
// number out of range.
[[nodiscard]] std::vector<DataSheet> known_hardware(const std::string& file = {});

}  // namespace paceline
