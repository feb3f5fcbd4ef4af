#pragma once
// Copies between floats on the host and device tensors of any floating-point dtype. Blocking.

#include <cstddef>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/tensor.h"

namespace paceline {

inline void put_floats(Device& device, const Tensor& to, std::span<const float> from) {
  dispatch_floating(to.dtype, [&]<class T>() {
    const std::vector<T> own(from.begin(), from.end());
    device.to_device(to, own.data());
  });
}

[[nodiscard]] inline std::vector<float> get_floats(Device& device, const Tensor& from) {
  return dispatch_floating(from.dtype, [&]<class T>() {
    std::vector<T> own(static_cast<std::size_t>(from.numel()));
    device.to_host(own.data(), from);
    return std::vector<float>(own.begin(), own.end());
  });
}

}  // namespace paceline
