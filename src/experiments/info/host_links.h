#pragma once
// How a host's GPUs and network interfaces are attached, as Linux's sysfs says it.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

struct PcieLink {
  std::string transfers;  // of a lane: "32.0 GT/s PCIe"
  int lanes = 0;
};

struct AttachedDevice {
  std::string kind;         // "gpu", "ethernet" or "infiniband"
  std::string name;         // of an interface: "eth0", "mlx5_0"; empty for a GPU
  std::string pci_address;  // "0000:1b:00.0"
  std::optional<int> numa_node;
  std::optional<PcieLink> pcie;       // at this moment: an idle GPU lowers it
  std::optional<PcieLink> pcie_most;  // the fastest link that the device supports
  std::optional<double> gbit_per_s;   // of an interface
  std::string state;                  // of an interface: "up", "ACTIVE"
};

struct HostLinks {
  int numa_nodes = 0;
  std::vector<AttachedDevice> devices;  // NVIDIA's GPUs, then interfaces on PCI, by address or name
};

// `sys`: where sysfs is. What cannot be read is left out.
[[nodiscard]] HostLinks host_links(const std::filesystem::path& sys = "/sys");

}  // namespace paceline
