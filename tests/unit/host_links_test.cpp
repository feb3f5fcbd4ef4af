// A host's links, read from a sysfs tree that the test creates.

#include "experiments/info/host_links.h"

#include <gtest/gtest.h>

#include "temp_folder.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class HostLinksTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path sys() const { return temp_.path(); }

  void write(const fs::path& file, const std::string& text) const { temp_.write(file, text); }
  void link(const fs::path& from, const fs::path& to) const {
    fs::create_directories((sys() / from).parent_path());
    fs::create_symlink(sys() / to, sys() / from);
  }
  // Adds a PCI device at its place in sysfs.
  [[nodiscard]] fs::path add_pci(const std::string& address, const std::string& vendor,
                                 const std::string& kind) const {
    fs::path folder = fs::path("devices/pci0000:00/0000:00:01.0") / address;
    write(folder / "vendor", vendor);
    write(folder / "class", kind);
    write(folder / "numa_node", "1");
    write(folder / "current_link_speed", "2.5 GT/s PCIe");
    write(folder / "current_link_width", "8");
    write(folder / "max_link_speed", "32.0 GT/s PCIe");
    write(folder / "max_link_width", "16");
    link("bus/pci/devices/" + address, folder);
    return folder;
  }

 private:
  TempFolder temp_;
};

TEST_F(HostLinksTest, GpusAreNvidiasDisplayDevices) {
  (void)add_pci("0000:1b:00.0", "0x10de", "0x030200");
  (void)add_pci("0000:1b:00.1", "0x10de", "0x040300");  // the GPU's audio function
  (void)add_pci("0000:02:00.0", "0x1a03", "0x030000");  // the board's display controller
  write("devices/system/node/node0/x", "");
  write("devices/system/node/node1/x", "");
  write("devices/system/node/has_cpu", "");
  const nlohmann::ordered_json links = host_links(sys());
  EXPECT_EQ(links["numa_nodes"], 2);
  ASSERT_EQ(links["devices"].size(), 1U);
  const nlohmann::ordered_json& gpu = links["devices"][0];
  EXPECT_EQ(gpu["kind"], "gpu");
  EXPECT_EQ(gpu["pci_address"], "0000:1b:00.0");
  EXPECT_EQ(gpu["numa_node"], 1);
  EXPECT_EQ(gpu["pcie"]["per_lane"], "2.5 GT/s PCIe");
  EXPECT_EQ(gpu["pcie"]["lanes"], 8);
  EXPECT_EQ(gpu["pcie_most"]["lanes"], 16);
}

TEST_F(HostLinksTest, InterfacesHaveTheirSpeed) {
  const fs::path nic = add_pci("0000:0c:00.0", "0x15b3", "0x020700");
  fs::create_directories(sys() / nic / "virtio2");
  write("class/net/eth0/type", "1");
  write("class/net/eth0/speed", "25000");
  write("class/net/eth0/operstate", "up");
  link("class/net/eth0/device", nic / "virtio2");
  write("class/net/lo/type", "772");
  write("class/net/veth0/type", "1");
  write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  link("class/infiniband/mlx5_0/device", nic);
  const nlohmann::ordered_json links = host_links(sys());
  ASSERT_EQ(links["devices"].size(), 2U);
  EXPECT_EQ(links["devices"][0]["name"], "eth0");
  EXPECT_EQ(links["devices"][0]["pci_address"], "0000:0c:00.0");
  EXPECT_EQ(links["devices"][0]["gbit_per_s"], 25);
  EXPECT_EQ(links["devices"][0]["state"], "up");
  EXPECT_EQ(links["devices"][1]["name"], "mlx5_0");
  EXPECT_EQ(links["devices"][1]["kind"], "infiniband");
  EXPECT_EQ(links["devices"][1]["gbit_per_s"], 400);
  EXPECT_EQ(links["devices"][1]["state"], "ACTIVE");
}

TEST_F(HostLinksTest, WhatIsUnknownIsLeftOut) {
  const fs::path gpu = add_pci("0000:1b:00.0", "0x10de", "0x030000");
  write(gpu / "numa_node", "-1");
  write(gpu / "current_link_speed", "Unknown");
  write(gpu / "max_link_width", "0");
  const nlohmann::ordered_json links = host_links(sys());
  ASSERT_EQ(links["devices"].size(), 1U);
  for (const char* name : {"numa_node", "pcie", "pcie_most"}) {
    EXPECT_TRUE(links["devices"][0][name].is_null()) << name;
  }
  EXPECT_TRUE(host_links(sys() / "absent")["devices"].empty());
}

}  // namespace
}  // namespace paceline
