#pragma once
// NVIDIA's management library (NVML), opened at run time: machines without a GPU have none, and not
// every machine with one has nvml.h. The declarations below follow NVML's API reference.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

class Nvml : NonCopyable {
 public:
  using Gpu = struct nvmlDevice_st*;

  // Null where the library, or a function of it that we call, is missing.
  [[nodiscard]] static std::shared_ptr<const Nvml> open();
  ~Nvml();

  // Null where there is no such GPU. bus: "0000:1b:00.0".
  [[nodiscard]] Gpu gpu(const std::string& pci_bus_id) const;
  // NaN for what this GPU does not tell.
  [[nodiscard]] double sm_clock(Gpu gpu) const;      // Hz
  [[nodiscard]] double memory_clock(Gpu gpu) const;  // Hz
  [[nodiscard]] double power(Gpu gpu) const;         // W, at this instant where the GPU tells that
  [[nodiscard]] double temperature(Gpu gpu) const;   // degrees Celsius
  // nvmlClocksEventReasons: a set of bits; 0 for what this GPU does not tell.
  [[nodiscard]] std::uint64_t clock_limits(Gpu gpu) const;
  // Of each NVLink that is up: bytes/s in one direction.
  [[nodiscard]] std::vector<double> nvlinks(Gpu gpu) const;

 private:
  struct Functions;

  Nvml(void* library, std::unique_ptr<Functions> functions);

  [[nodiscard]] double clock(Gpu gpu, int type) const;
  // nvmlDeviceGetFieldValues, of an unsigned int; NaN where this GPU does not tell it.
  [[nodiscard]] double field(Gpu gpu, unsigned id, unsigned scope) const;

  void* library_;
  std::unique_ptr<Functions> call_;
};

}  // namespace paceline
