#include "experiments/plan/plan_case.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "temp_folder.h"

namespace paceline {
namespace {

std::vector<DataSheet> devices_of(const std::string& text) {
  const TempFolder folder;
  const std::string file = (folder.path() / "F.toml").string();
  std::ofstream(file) << text;
  return known_hardware(file);
}

TEST(HardwareTest, APeakThatTheSheetDoesNotStateIsRefused) {
  const DataSheet tpu{.name = "tpu", .half = 460};
  EXPECT_EQ(peak_flops_per_s(tpu, precision_named("bf16")), 4.6e14);
  EXPECT_THROW((void)peak_flops_per_s(tpu, precision_named("fp32")), UsageError);
}

TEST(HardwareTest, AttentionHasThePeakOfItsArithmetic) {
  const auto peak = [](std::string_view precision, Fp32Attention fp32) {
    return attention_flops_per_s(*data_sheet_of("NVIDIA H200"),
                                 {.precision = precision_named(precision),
                                  .attention = AttentionKind::flash,
                                  .fp32_attention = fp32});
  };
  EXPECT_DOUBLE_EQ(peak("fp32", Fp32Attention::bf16x3), 989.4e12 / 3);
  EXPECT_DOUBLE_EQ(peak("fp32", Fp32Attention::tf32), 494.7e12);
  EXPECT_DOUBLE_EQ(peak("fp32", Fp32Attention::exact), 66.9e12);
  EXPECT_DOUBLE_EQ(peak("bf16", Fp32Attention::bf16x3), 989.4e12);
}

TEST(HardwareTest, ADeviceWithoutAFigureIsRefusedByItsKey) {
  try {
    (void)devices_of("[x]\nmemory_GB = 1\nnode_devices = 1\nsource = \"none\"\n");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("F.toml:1:2: x lacks memory_GB_per_s"))
        << error.what();
  }
}

TEST(HardwareTest, AFigureIsANumberInRange) {
  for (const char* number : {"0", "-1", "inf", "nan", "1e300", "1e-300", "\"80\"", "true"}) {
    const std::string text = "[x]\nsource = \"none\"\nnode_devices = 1\nmemory_GB = " + std::string(number) + "\n";
    EXPECT_THROW((void)devices_of(text), UsageError) << number;
  }
}

TEST(HardwareTest, DevicesOfANodeAreCounted) {
  const std::string figures =
      "[x]\nsource = \"none\"\nmemory_GB = 1\nmemory_GB_per_s = 1\nlink_GB_per_s = 1\n"
      "network_GB_per_s = 1\nnode_devices = ";
  for (const char* count : {"0", "0.5", "1e300", "-8", "\"8\""}) {
    EXPECT_THROW((void)devices_of(figures + count), UsageError) << count;
  }
  EXPECT_EQ(devices_of(figures + "8").front().node_devices, 8);
}

}  // namespace
}  // namespace paceline
