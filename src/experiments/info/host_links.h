#pragma once
// The PCIe links and NUMA nodes of a host's GPUs and network interfaces, from Linux's sysfs.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

struct PcieLink {
  std::string transfers;  // per lane, as in sysfs: "32.0 GT/s PCIe"
  int lanes = 0;
};

struct AttachedDevice {
  std::string kind;         // "gpu", "ethernet" or "infiniband"
  std::string name;         // of a network interface: "eth0", "mlx5_0"; empty for a GPU
  std::string pci_address;  // "0000:1b:00.0"
  std::optional<int> numa_node;
  std::optional<PcieLink> pcie;       // current; an idle GPU reduces its link speed
  std::optional<PcieLink> pcie_most;  // the fastest link that the device supports
  std::optional<double> gbit_per_s;   // of a network interface
  std::string state;                  // of a network interface: "up", "ACTIVE"
};

struct HostLinks {
  int numa_nodes = 0;
  // NVIDIA GPUs by PCI address, then network interfaces on PCI by name.
  std::vector<AttachedDevice> devices;
};

// `sys`: the mount point of sysfs. Entries that cannot be read are left out.
[[nodiscard]] HostLinks host_links(const std::filesystem::path& sys = "/sys");

}  // namespace paceline
