#include "core/data_sheet.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

double tflops(std::string_view device, std::string_view precision) {
  const DataSheet* sheet = data_sheet_of(device);
  return sheet == nullptr ? 0 : sheet->flops_per_s(precision_named(precision)).value_or(0) / 1e12;
}

TEST(DataSheetTest, IsFoundByTheWholeNameOfTheDevice) {
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H200", "bf16"), 989.4);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H200", "fp16"), 989.4);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H200", "tf32"), 494.7);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H200", "fp32"), 66.9);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H200 NVL", "bf16"), 835.5);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H100 80GB HBM3", "bf16"), 989.4);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA H100 PCIe", "bf16"), 756.5);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA GH200 480GB", "bf16"), 989.4);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA B200", "bf16"), 2250);
  EXPECT_DOUBLE_EQ(tflops("NVIDIA GB200", "bf16"), 2500);
}

TEST(DataSheetTest, ADeviceWithoutASheetHasNone) {
  for (const char* device :
       {"NVIDIA H200 MIG 1g.18gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "NVIDIA H200 141GB",
        "NVIDIA GB200 NVL72", "NVIDIA L40", "H200", "nvidia h200", "cpu", ""}) {
    EXPECT_EQ(data_sheet_of(device), nullptr) << device;
  }
  EXPECT_EQ(tflops("NVIDIA H200", "fp64"), 0);
}

TEST(DataSheetTest, EveryGpuStatesThreeRatesAndEveryPlannedDeviceItsLinks) {
  for (const DataSheet& sheet : data_sheets()) {
    SCOPED_TRACE(std::string(sheet.device) + std::string(sheet.name));
    if (!sheet.device.empty()) {
      EXPECT_EQ(data_sheet_of(sheet.device), &sheet) << "the name of another sheet";
      EXPECT_GE(sheet.half, 2 * sheet.fp32 * 0.999);
      EXPECT_GE(sheet.tf32, sheet.fp32);
      EXPECT_GT(sheet.fp32, 0);
    }
    if (sheet.name.empty()) continue;
    EXPECT_GT(sheet.memory_gb, 0);
    EXPECT_GT(sheet.memory_gb_per_s, 0);
    EXPECT_GT(sheet.link_gb_per_s, 0);
    EXPECT_GT(sheet.network_gb_per_s, 0);
    EXPECT_GT(sheet.node_devices, 0);
    EXPECT_FALSE(sheet.source.empty());
  }
}

}  // namespace
}  // namespace paceline
