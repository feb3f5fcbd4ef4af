#include "core/data_sheet.h"

#include <algorithm>
#include <vector>

namespace paceline {

namespace {

const std::vector<DataSheet>& sheets() {
  static const std::vector<DataSheet> all = {
      DataSheet{.device = "NVIDIA H100 80GB HBM3",
                .name = "h100",
                .half = 989.4,
                .tf32 = 494.7,
                .fp32 = 66.9,
                .memory_gb = 80,
                .memory_gb_per_s = 3350,
                .link_gb_per_s = 450,
                .network_gb_per_s = 400,
                .node_devices = 8,
                .source = "NVIDIA H100 data sheet, SXM5; DGX H100: 8 x 400 Gbit/s"},
      DataSheet{.device = "NVIDIA H200",
                .name = "h200",
                .half = 989.4,
                .tf32 = 494.7,
                .fp32 = 66.9,
                .memory_gb = 141,
                .memory_gb_per_s = 4800,
                .link_gb_per_s = 450,
                .network_gb_per_s = 400,
                .node_devices = 8,
                .source = "NVIDIA H200 data sheet, SXM; DGX H200: 8 x 400 Gbit/s"},
      DataSheet{.device = "NVIDIA A100-SXM4-80GB",
                .name = "a100",
                .half = 312,
                .tf32 = 156,
                .fp32 = 19.5,
                .memory_gb = 80,
                .memory_gb_per_s = 2039,
                .link_gb_per_s = 300,
                .network_gb_per_s = 200,
                .node_devices = 8,
                .source = "NVIDIA A100 80 GB data sheet, SXM4; DGX A100: 8 x 200 Gbit/s"},
      DataSheet{.device = "NVIDIA B200",
                .name = "b200",
                .half = 2250,
                .tf32 = 1125,
                .fp32 = 75,
                .memory_gb = 180,
                .memory_gb_per_s = 7700,
                .link_gb_per_s = 900,
                .network_gb_per_s = 400,
                .node_devices = 8,
                .source = "NVIDIA HGX B200 data sheet; DGX B200: 8 x 400 Gbit/s"},
      DataSheet{.name = "tpu-v5p",
                .half = 460,
                .memory_gb = 95,
                .memory_gb_per_s = 2765,
                .link_gb_per_s = 180,
                .network_gb_per_s = 180,
                .node_devices = 8960,
                .source = "the course: C = 4.6e14 FLOP/s, W = 2 x 9e10 B/s per axis; memory: "
                          "Google's TPU v5p page"},
      DataSheet{.device = "NVIDIA GB200", .half = 2500, .tf32 = 1250, .fp32 = 80},
      DataSheet{.device = "NVIDIA GH200 480GB", .half = 989.4, .tf32 = 494.7, .fp32 = 66.9},
      DataSheet{.device = "NVIDIA GH200 144G HBM3e", .half = 989.4, .tf32 = 494.7, .fp32 = 66.9},
      DataSheet{.device = "NVIDIA H200 NVL", .half = 835.5, .tf32 = 417.5, .fp32 = 60},
      DataSheet{.device = "NVIDIA H100 NVL", .half = 835.5, .tf32 = 417.5, .fp32 = 60},
      DataSheet{.device = "NVIDIA H100 PCIe", .half = 756.5, .tf32 = 378, .fp32 = 51},
      DataSheet{.device = "NVIDIA A100-SXM4-40GB", .half = 312, .tf32 = 156, .fp32 = 19.5},
      DataSheet{.device = "NVIDIA A100 80GB PCIe", .half = 312, .tf32 = 156, .fp32 = 19.5},
      DataSheet{.device = "NVIDIA A100-PCIE-40GB", .half = 312, .tf32 = 156, .fp32 = 19.5},
      DataSheet{.device = "NVIDIA A40", .half = 149.7, .tf32 = 74.8, .fp32 = 37.4},
      DataSheet{.device = "NVIDIA L40S", .half = 362.05, .tf32 = 183, .fp32 = 91.6},
      DataSheet{.device = "NVIDIA L4", .half = 121, .tf32 = 60, .fp32 = 30.3},
      // Products of half types that are summed in float32.
      DataSheet{.device = "NVIDIA GeForce RTX 4090", .half = 165.2, .tf32 = 82.6, .fp32 = 82.6},
      DataSheet{.device = "NVIDIA GeForce RTX 5090", .half = 209.5, .tf32 = 104.8, .fp32 = 104.8}};
  return all;
}

}  // namespace

std::optional<double> DataSheet::flops_per_s(const Precision& precision) const {
  constexpr double tera = 1e12;
  const double rate = size_of(precision.compute) == 2    ? half
                      : precision.compute != Dtype::f32  ? 0
                      : precision.gemm == GemmMath::tf32 ? tf32
                                                         : fp32;
  return rate > 0 ? std::optional(rate * tera) : std::nullopt;
}

std::span<const DataSheet> data_sheets() { return sheets(); }

const DataSheet* data_sheet_of(std::string_view device) {
  const auto found = std::ranges::find_if(
      sheets(), [&](const DataSheet& sheet) { return !device.empty() && sheet.device == device; });
  return found == sheets().end() ? nullptr : &*found;
}

}  // namespace paceline
