#pragma once
// What main() knows of CUDA; cuda/stub/ answers where the program is built without it.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/device.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace paceline {

// A device of CUDA, for libraries that work on its memory and its streams.
class GpuDevice : public Device {
 public:
  [[nodiscard]] virtual CUstream_st* handle_of(Stream& stream) = 0;  // a stream of this device

  // Memory of this GPU that a library allocated. Until the last copy of the result is gone, which
  // calls `release`, the ledger counts the tensor's bytes and reserved_bytes() the library's.
  [[nodiscard]] virtual Array adopt(const Tensor& memory, std::size_t library_bytes,
                                    MemoryKind kind, std::function<void(void*)> release) = 0;
};

// The UUID of the GPU that this rank would use: the only visible one, or the local rank's; empty
// where there is none.
[[nodiscard]] std::string gpu_uuid(int local_rank);

// That GPU. memory_limit: bytes that it may reserve, none: all that the driver gives; threads: what
// the record says of the host's side. Throws EnvironmentError when there is no such GPU.
[[nodiscard]] std::unique_ptr<GpuDevice> make_cuda_device(int local_rank,
                                                          std::optional<std::size_t> memory_limit,
                                                          int threads);

}  // namespace paceline
