#pragma once
// NVIDIA's management library (NVML), loaded at run time: machines without a GPU lack it, and not
// every machine with a GPU has nvml.h. The declarations follow NVML's API reference.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

class Nvml : NonCopyable {
 public:
  using Gpu = struct nvmlDevice_st*;

  // Null if the library or one of the functions used here is missing.
  [[nodiscard]] static std::shared_ptr<const Nvml> open();
  ~Nvml();

  // Null if there is no such GPU. pci_bus_id: "0000:1b:00.0".
  [[nodiscard]] Gpu gpu(const std::string& pci_bus_id) const;
  // NaN if this GPU does not report the value.
  [[nodiscard]] double sm_clock(Gpu gpu) const;      // Hz
  [[nodiscard]] double memory_clock(Gpu gpu) const;  // Hz
  [[nodiscard]] double power(Gpu gpu) const;         // W, instantaneous if the GPU reports that
  [[nodiscard]] double temperature(Gpu gpu) const;   // degrees Celsius
  // nvmlClocksEventReasons, a bit mask; 0 if this GPU does not report it.
  [[nodiscard]] std::uint64_t clock_limits(Gpu gpu) const;
  // The bandwidth of each active NVLink in one direction, bytes/s.
  [[nodiscard]] std::vector<double> nvlinks(Gpu gpu) const;

 private:
  struct Functions;

  Nvml(void* library, std::unique_ptr<Functions> functions);

  [[nodiscard]] double clock(Gpu gpu, int type) const;
  // nvmlDeviceGetFieldValues for a field of type unsigned int; NaN if this GPU does not report it.
  [[nodiscard]] double field(Gpu gpu, unsigned id, unsigned scope) const;

  void* library_;
  std::unique_ptr<Functions> call_;
};

}  // namespace paceline
