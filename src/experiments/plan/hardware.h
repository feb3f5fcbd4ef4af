#pragma once
// Peak rates and memory of devices, from the vendors' data sheets, the user's file or options.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops.h"
#include "core/precision.h"

namespace paceline {

inline constexpr double giga = 1e9;
inline constexpr double gibi = 0x1p30;

struct Hardware {
  std::string name;
  double memory_gb = 0;  // the data sheet's number, which may mean GB or GiB
  // Dense, without sparsity; empty if the data sheet states none.
  std::optional<double> half_flops_per_s;
  std::optional<double> tf32_flops_per_s;
  std::optional<double> fp32_flops_per_s;
  double memory_bytes_per_s = 0;  // 0: unknown
  // The rate at which a device sends in a collective along one axis of the mesh.
  double link_bytes_per_s = 0;
  // The rate at which all network cards of a node send in collectives across nodes.
  double network_bytes_per_s = 0;
  int node_devices = 1;  // devices of a node, which share its network cards
  std::string source;

  [[nodiscard]] bool has_peak(const Precision& precision) const;
  // Throws UsageError naming --peak-tflops if the table has no figure for this precision.
  [[nodiscard]] double peak_flops_per_s(const Precision& precision) const;
  // The peak of attention's products, whose arithmetic may be another.
  [[nodiscard]] double attention_flops_per_s(const OpsConfig& config) const;
  // The rate in bytes/s of a ring of `devices` devices along one mesh axis. `rings` such rings run
  // concurrently; rings across nodes share the node's network cards.
  [[nodiscard]] double bandwidth_bytes_per_s(std::int64_t devices, int rings = 1) const;
};

// The devices of the data sheets that suffice for a plan, in their order.
[[nodiscard]] std::vector<Hardware> known_hardware();
// Whether `device`, the name of a GPU in a result file, is that of the name: "NVIDIA H200" is the
// data sheets' h200.
[[nodiscard]] bool is_device(std::string_view device, std::string_view name);
// Whether the user's file of devices (empty: no file) or the data sheets have the name. Throws
// UsageError for an invalid file.
[[nodiscard]] bool is_known_hardware(std::string_view name, const std::string& file);
// Looks a name up in the file, then in the data sheets. Throws UsageError for an unknown name or an
// invalid file.
[[nodiscard]] Hardware hardware_named(std::string_view name, const std::string& file = {});

// The devices of a file. Throws UsageError for a missing key, a wrong type or a number out of
// range.
[[nodiscard]] std::vector<Hardware> read_hardware(const std::string& file);

}  // namespace paceline
