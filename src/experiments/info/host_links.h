#pragma once
// The PCIe links and NUMA nodes of a host's GPUs and network interfaces, from Linux's sysfs.

#include <filesystem>
#include <nlohmann/json.hpp>

namespace paceline {

// {"numa_nodes": 2, "devices": [...]}: NVIDIA GPUs by PCI address, then network interfaces on PCI
// by name, each with
//   kind         "gpu", "ethernet" or "infiniband"
//   name         of a network interface: "eth0", "mlx5_0"
//   pci_address  "0000:1b:00.0"
//   numa_node
//   pcie         the current link, {"per_lane": "32.0 GT/s PCIe", "lanes": 16}; an idle GPU reduces
//                its link speed
//   pcie_most    the fastest link that the device supports
//   gbit_per_s   of a network interface
//   state        of a network interface: "up", "ACTIVE"
// A value that cannot be read is null. `sys`: the mount point of sysfs.
[[nodiscard]] nlohmann::ordered_json host_links(const std::filesystem::path& sys = "/sys");

}  // namespace paceline
