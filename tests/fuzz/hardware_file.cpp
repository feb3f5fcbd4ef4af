// plan --hardware-file: a TOML table of devices.

#include <cmath>

#include "experiments/plan/hardware.h"
#include "tests/fuzz/fuzz.h"

using namespace paceline;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepted([&] {
    for (const DataSheet& device : known_hardware(file.path())) {
      for (const std::int64_t devices : {1, 2, 1 << 20}) {
        const double bandwidth = bandwidth_bytes_per_s(device, devices, 2);
        fuzz::require(std::isfinite(bandwidth) && bandwidth > 0);
      }
      fuzz::accepted([&] { fuzz::require(peak_flops_per_s(device, precision_named("bf16")) > 0); });
    }
  });
  return 0;
}
