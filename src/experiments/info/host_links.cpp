#include "experiments/info/host_links.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <regex>

namespace paceline {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The first line of a file; empty if it cannot be read.
std::string line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The number at the start of a file's first line; null if it is not there or negative.
template <class T>
Json number_of(const fs::path& file) {
  const std::string line = line_of(file);
  T value = 0;
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  return error == std::errc{} && value >= 0 ? Json(value) : Json(nullptr);
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

Json link_of(const fs::path& device, const std::string& which) {
  const std::string transfers = line_of(device / (which + "_link_speed"));
  const Json lanes = number_of<int>(device / (which + "_link_width"));
  if (transfers.find("GT/s") == std::string::npos || lanes.is_null() || lanes == 0) return nullptr;
  return {{"per_lane", transfers}, {"lanes", lanes}};
}

// `device`: a folder of sysfs. The device's PCI address is the last one in its path; null if there
// is none.
Json attached(const fs::path& device, const char* kind, const std::string& name) {
  std::error_code error;
  fs::path folder = fs::canonical(device, error);
  static const std::regex address("[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]");
  while (!error && folder.has_relative_path()) {
    if (std::regex_match(folder.filename().string(), address)) {
      Json json = {{"kind", kind}};
      if (!name.empty()) json["name"] = name;
      json["pci_address"] = folder.filename().string();
      json["numa_node"] = number_of<int>(folder / "numa_node");
      json["pcie"] = link_of(folder, "current");
      json["pcie_most"] = link_of(folder, "max");
      return json;
    }
    folder = folder.parent_path();
  }
  return nullptr;
}

void add_gpus(Json& devices, const fs::path& sys) {
  for (const fs::path& path : entries_of(sys / "bus/pci/devices")) {
    constexpr std::string_view nvidia = "0x10de";
    constexpr std::string_view display = "0x03";  // base class of display controllers
    if (line_of(path / "vendor") != nvidia || !line_of(path / "class").starts_with(display)) {
      continue;
    }
    if (Json device = attached(path, "gpu", ""); !device.is_null()) devices.push_back(device);
  }
}

void add_ethernet(Json& devices, const fs::path& sys) {
  for (const fs::path& path : entries_of(sys / "class/net")) {
    constexpr std::string_view arphrd_ether = "1";
    if (line_of(path / "type") != arphrd_ether) continue;
    Json device = attached(path / "device", "ethernet", path.filename().string());
    if (device.is_null()) continue;  // virtual
    constexpr double megabits = 1e-3;
    const Json speed = number_of<double>(path / "speed");
    device["gbit_per_s"] = speed.is_null() ? speed : Json(speed.get<double>() * megabits);
    device["state"] = line_of(path / "operstate");
    devices.push_back(device);
  }
}

// One entry per port: "mlx5_0" for the first, "mlx5_0:2" for the second.
void add_infiniband(Json& devices, const fs::path& sys) {
  for (const fs::path& path : entries_of(sys / "class/infiniband")) {
    for (const fs::path& port : entries_of(path / "ports")) {
      const std::string number = port.filename().string();
      const std::string name = path.filename().string() + (number == "1" ? "" : ":" + number);
      Json device = attached(path / "device", "infiniband", name);
      if (device.is_null()) continue;
      device["gbit_per_s"] = number_of<double>(port / "rate");  // "400 Gb/sec (4X NDR)"
      const std::string state = line_of(port / "state");        // "4: ACTIVE"
      const std::size_t space = state.find(' ');
      device["state"] = space == std::string::npos ? state : state.substr(space + 1);
      devices.push_back(device);
    }
  }
}

std::int64_t numa_nodes(const fs::path& sys) {
  static const std::regex node("node[0-9]+");
  return std::ranges::count_if(entries_of(sys / "devices/system/node"), [](const fs::path& path) {
    return std::regex_match(path.filename().string(), node);
  });
}

}  // namespace

Json host_links(const fs::path& sys) {
  Json devices = Json::array();
  add_gpus(devices, sys);
  add_ethernet(devices, sys);
  add_infiniband(devices, sys);
  return {{"numa_nodes", numa_nodes(sys)}, {"devices", devices}};
}

}  // namespace paceline
