#include "experiments/info/host_links.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <regex>

namespace paceline {

namespace {

namespace fs = std::filesystem;

// The first line of a file; empty if it cannot be read.
std::string line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The number at the start of a file's first line, if it is there and not negative.
template <class T>
std::optional<T> number_of(const fs::path& file) {
  const std::string line = line_of(file);
  T value = 0;
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  return error == std::errc{} && value >= 0 ? std::optional(value) : std::nullopt;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::optional<PcieLink> link_of(const fs::path& device, const std::string& which) {
  const std::string transfers = line_of(device / (which + "_link_speed"));
  const int lanes = number_of<int>(device / (which + "_link_width")).value_or(0);
  const bool known = transfers.find("GT/s") != std::string::npos && lanes > 0;
  return known ? std::optional(PcieLink{transfers, lanes}) : std::nullopt;
}

// `device`: a folder of sysfs. The device's PCI address is the last one in its path.
std::optional<AttachedDevice> attached(const fs::path& device, std::string kind, std::string name) {
  std::error_code error;
  fs::path folder = fs::canonical(device, error);
  static const std::regex address("[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]");
  while (!error && folder.has_relative_path()) {
    if (std::regex_match(folder.filename().string(), address)) {
      return AttachedDevice{.kind = std::move(kind),
                            .name = std::move(name),
                            .pci_address = folder.filename().string(),
                            .numa_node = number_of<int>(folder / "numa_node"),
                            .pcie = link_of(folder, "current"),
                            .pcie_most = link_of(folder, "max"),
                            .gbit_per_s = {},
                            .state = {}};
    }
    folder = folder.parent_path();
  }
  return std::nullopt;
}

void add_gpus(std::vector<AttachedDevice>& devices, const fs::path& sys) {
  for (const fs::path& path : entries_of(sys / "bus/pci/devices")) {
    constexpr std::string_view nvidia = "0x10de";
    constexpr std::string_view display = "0x03";  // base class of display controllers
    if (line_of(path / "vendor") != nvidia || !line_of(path / "class").starts_with(display)) {
      continue;
    }
    if (auto device = attached(path, "gpu", "")) devices.push_back(std::move(*device));
  }
}

void add_ethernet(std::vector<AttachedDevice>& devices, const fs::path& sys) {
  for (const fs::path& path : entries_of(sys / "class/net")) {
    constexpr std::string_view arphrd_ether = "1";
    if (line_of(path / "type") != arphrd_ether) continue;
    auto device = attached(path / "device", "ethernet", path.filename().string());
    if (!device) continue;  // virtual
    constexpr double megabits = 1e-3;
    if (const auto speed = number_of<double>(path / "speed"))
      device->gbit_per_s = *speed * megabits;
    device->state = line_of(path / "operstate");
    devices.push_back(std::move(*device));
  }
}

// One entry per port: "mlx5_0" for the first, "mlx5_0:2" for the second.
void add_infiniband(std::vector<AttachedDevice>& devices, const fs::path& sys) {
  for (const fs::path& path : entries_of(sys / "class/infiniband")) {
    for (const fs::path& port : entries_of(path / "ports")) {
      const std::string number = port.filename().string();
      const std::string name = path.filename().string() + (number == "1" ? "" : ":" + number);
      auto device = attached(path / "device", "infiniband", name);
      if (!device) continue;
      device->gbit_per_s = number_of<double>(port / "rate");  // "400 Gb/sec (4X NDR)"
      const std::string state = line_of(port / "state");      // "4: ACTIVE"
      const std::size_t space = state.find(' ');
      device->state = space == std::string::npos ? state : state.substr(space + 1);
      devices.push_back(std::move(*device));
    }
  }
}

int numa_nodes(const fs::path& sys) {
  const std::vector<fs::path> all = entries_of(sys / "devices/system/node");
  return static_cast<int>(std::count_if(all.begin(), all.end(), [](const fs::path& path) {
    const std::string name = path.filename().string();
    return name.size() > 4 && name.starts_with("node") &&
           name.find_first_not_of("0123456789", 4) == std::string::npos;
  }));
}

}  // namespace

HostLinks host_links(const fs::path& sys) {
  HostLinks links{.numa_nodes = numa_nodes(sys), .devices = {}};
  add_gpus(links.devices, sys);
  add_ethernet(links.devices, sys);
  add_infiniband(links.devices, sys);
  return links;
}

}  // namespace paceline
