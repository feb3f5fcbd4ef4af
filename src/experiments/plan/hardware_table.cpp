// The table of devices. TFLOP/s are dense; GB are as written in the data sheets.

#include "experiments/plan/hardware.h"

namespace paceline {

std::string_view hardware_table() {
  return R"toml(
# link: sent by a device in a collective along one axis of the mesh (NVLink: one direction; a TPU's
# ring: both directions). network: sent by all network cards of a node together.
[h100]
memory_GB = 80
half_TFLOP_per_s = 989.4
tf32_TFLOP_per_s = 494.7
fp32_TFLOP_per_s = 66.9
memory_GB_per_s = 3350
link_GB_per_s = 450
network_GB_per_s = 400
node_devices = 8
source = "NVIDIA H100 data sheet, SXM5; DGX H100: 8 x 400 Gbit/s"

[h200]
memory_GB = 141
half_TFLOP_per_s = 989.4
tf32_TFLOP_per_s = 494.7
fp32_TFLOP_per_s = 66.9
memory_GB_per_s = 4800
link_GB_per_s = 450
network_GB_per_s = 400
node_devices = 8
source = "NVIDIA H200 data sheet, SXM; DGX H200: 8 x 400 Gbit/s"

[a100]
memory_GB = 80
half_TFLOP_per_s = 312
tf32_TFLOP_per_s = 156
fp32_TFLOP_per_s = 19.5
memory_GB_per_s = 2039
link_GB_per_s = 300
network_GB_per_s = 200
node_devices = 8
source = "NVIDIA A100 80 GB data sheet, SXM4; DGX A100: 8 x 200 Gbit/s"

[b200]
memory_GB = 180
half_TFLOP_per_s = 2250
tf32_TFLOP_per_s = 1125
fp32_TFLOP_per_s = 75
memory_GB_per_s = 7700
link_GB_per_s = 900
network_GB_per_s = 400
node_devices = 8
source = "NVIDIA HGX B200 data sheet; DGX B200: 8 x 400 Gbit/s"

[tpu-v5p]
memory_GB = 95
half_TFLOP_per_s = 460
memory_GB_per_s = 2765
link_GB_per_s = 180
network_GB_per_s = 180
node_devices = 8960
source = "the course: C = 4.6e14 FLOP/s, W = 2 x 9e10 B/s per axis; memory: Google's TPU v5p page"
)toml";
}

}  // namespace paceline
