#include "core/data_sheet.h"

#include <vector>

namespace paceline {

// clang-format off
std::span<const DataSheet> data_sheets() {
  static const std::vector<DataSheet> all = {
      // device, name, half, tf32, fp32, memory_gb, memory_gb_per_s, link_gb_per_s,
      // network_gb_per_s, node_devices, source
      {"NVIDIA H100 80GB HBM3", "h100", 989.4, 494.7, 66.9, 80, 3350, 450, 400, 8,
       "NVIDIA H100 data sheet, SXM5; DGX H100: 8 x 400 Gbit/s"},
      {"NVIDIA H200", "h200", 989.4, 494.7, 66.9, 141, 4800, 450, 400, 8,
       "NVIDIA H200 data sheet, SXM; DGX H200: 8 x 400 Gbit/s"},
      {"NVIDIA A100-SXM4-80GB", "a100", 312, 156, 19.5, 80, 2039, 300, 200, 8,
       "NVIDIA A100 80 GB data sheet, SXM4; DGX A100: 8 x 200 Gbit/s"},
      {"NVIDIA B200", "b200", 2250, 1125, 75, 180, 7700, 900, 400, 8,
       "NVIDIA HGX B200 data sheet; DGX B200: 8 x 400 Gbit/s"},
      {"", "tpu-v5p", 460, 0, 0, 95, 2765, 180, 180, 8960,
       "the course: C = 4.6e14 FLOP/s, W = 2 x 9e10 B/s per axis; memory: Google's TPU v5p page"},
      {"NVIDIA GB200", "", 2500, 1250, 80},
      {"NVIDIA GH200 480GB", "", 989.4, 494.7, 66.9},
      {"NVIDIA GH200 144G HBM3e", "", 989.4, 494.7, 66.9},
      {"NVIDIA H200 NVL", "", 835.5, 417.5, 60},
      {"NVIDIA H100 NVL", "", 835.5, 417.5, 60},
      {"NVIDIA H100 PCIe", "", 756.5, 378, 51},
      {"NVIDIA A100-SXM4-40GB", "", 312, 156, 19.5},
      {"NVIDIA A100 80GB PCIe", "", 312, 156, 19.5},
      {"NVIDIA A100-PCIE-40GB", "", 312, 156, 19.5},
      {"NVIDIA A40", "", 149.7, 74.8, 37.4},
      {"NVIDIA L40S", "", 362.05, 183, 91.6},
      {"NVIDIA L4", "", 121, 60, 30.3},
      // Products of half types that are summed in float32.
      {"NVIDIA GeForce RTX 4090", "", 165.2, 82.6, 82.6},
      {"NVIDIA GeForce RTX 5090", "", 209.5, 104.8, 104.8}};
  return all;
}
// clang-format on

std::optional<double> DataSheet::flops_per_s(const Precision& precision) const {
  constexpr double tera = 1e12;
  const double rate = size_of(precision.compute) == 2    ? half
                      : precision.compute != Dtype::f32  ? 0
                      : precision.gemm == GemmMath::tf32 ? tf32
                                                         : fp32;
  return rate > 0 ? std::optional(rate * tera) : std::nullopt;
}

const DataSheet* data_sheet_of(std::string_view device) {
  for (const DataSheet& sheet : data_sheets()) {
    if (!device.empty() && sheet.device == device) return &sheet;
  }
  return nullptr;
}

}  // namespace paceline
