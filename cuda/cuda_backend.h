#pragma once
// What main() knows of CUDA; cuda/stub/ answers where the program is built without it.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "core/device.h"

namespace paceline {

// The UUID of the GPU that this rank would use: the only visible one, or the local rank's; empty
// where there is none.
[[nodiscard]] std::string gpu_of_rank(int local_rank);

// That GPU. memory_limit: bytes that it may reserve, none: all that the driver gives; threads: what
// the record says of the host's side. Throws EnvironmentError when there is no such GPU.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(int local_rank,
                                                       std::optional<std::size_t> memory_limit,
                                                       int threads);

}  // namespace paceline
