#pragma once
// What a device can do, from the vendors' data sheets: a TOML table that is compiled in, so that an
// installed program has it wherever it lies, or from options.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/precision.h"
#include "core/toml.h"

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

  [[nodiscard]] bool has_peak(const Precision& precision) const;
  // Throws UsageError naming --peak where the table has no figure for this precision.
  [[nodiscard]] double peak_flops_per_s(const Precision& precision) const;
  // In bytes/s along one axis, of a collective whose ring runs through this many devices. `rings`
  // of them run side by side, and where they leave a node they share its network cards.
  [[nodiscard]] double bandwidth_bytes_per_s(std::int64_t devices, int rings = 1) const;
};

// In the order of the table. Throws EnvironmentError in a build without a TOML library.
[[nodiscard]] std::vector<Hardware> known_hardware();
// Of the user's file of devices, empty: none, or of the table. Throws UsageError for a name that
// both lack, and for a file that is no such table; EnvironmentError, which names the options that
// need no table, in a build without a TOML library.
[[nodiscard]] Hardware hardware_named(std::string_view name, const std::string& file = {});

// The compiled-in table, and how one is read. Throws UsageError for a missing key, a wrong type and
// a number out of range.
[[nodiscard]] std::string_view hardware_table();
[[nodiscard]] std::vector<Hardware> parse_hardware(const TomlDocument& document);

}  // namespace paceline
