#pragma once
// What a device can do, from the vendors' data sheets: a TOML table that is compiled in, so that an
// installed program has it wherever it lies, or from options.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/precision.h"

namespace paceline {

struct Hardware {
  std::string name;
  double memory_gb = 0;  // as the data sheet writes it; vendors mean GB or GiB
  // Dense, without sparsity; nothing where none is stated.
  std::optional<double> half_flops_per_s;
  std::optional<double> tf32_flops_per_s;
  std::optional<double> fp32_flops_per_s;
  double memory_bytes_per_s = 0;  // 0: not known
  // That a device sends in a collective along one axis of the mesh.
  double link_bytes_per_s = 0;
  // That a node's network cards send together in collectives across nodes.
  double network_bytes_per_s = 0;
  int node_devices = 1;  // that share the link
  std::string source;

  // Throws UsageError naming --peak where the table has no figure for this precision.
  [[nodiscard]] double peak_flops_per_s(const Precision& precision) const;
  // In bytes/s along one axis, of a collective whose ring runs through this many devices. `rings`
  // of them run side by side, and where they leave a node they share its network cards.
  [[nodiscard]] double bandwidth_bytes_per_s(std::int64_t devices, int rings = 1) const;
};

// In the order of the table. Throws EnvironmentError in a build without a TOML library.
[[nodiscard]] std::vector<Hardware> known_hardware();
// Throws UsageError for a name that the table lacks; EnvironmentError, which names the options that
// need no table, in a build without a TOML library.
[[nodiscard]] Hardware hardware_named(std::string_view name);

// The compiled-in table, and how one is read. Throws UsageError for a missing key or a wrong type.
[[nodiscard]] std::string_view hardware_table();
[[nodiscard]] std::vector<Hardware> parse_hardware(std::string_view text, const std::string& file);

}  // namespace paceline
