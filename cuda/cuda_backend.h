#pragma once
// The CUDA backend as main() sees it; cuda/stub/ replaces it where the program is built without
// CUDA.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/device.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace paceline {

// A CUDA device, for libraries that use its memory and streams.
class GpuDevice : public Device {
 public:
  [[nodiscard]] virtual CUstream_st* handle_of(Stream& stream) = 0;  // a stream of this device

  // Takes over memory of this GPU that a library allocated, and calls `release` when the last copy
  // of the result is destroyed. Until then the ledger counts the tensor's bytes, and
  // reserved_bytes() the library's bytes.
  [[nodiscard]] virtual Array adopt(const Tensor& memory, std::size_t library_bytes,
                                    MemoryKind kind, std::function<void(void*)> release) = 0;
};

// The UUID of the GPU that this rank would use: the only visible GPU, or the one with the number of
// the local rank; empty if there is none.
[[nodiscard]] std::string gpu_uuid(int local_rank);

// Why this process sees no GPU, in CUDA's words; empty if it sees one.
[[nodiscard]] std::string why_no_gpu();

// That GPU. memory_limit: bytes that it may reserve; nullopt: all that the driver gives. threads:
// CPU threads of the rank, for the record. Throws EnvironmentError if there is no such GPU.
[[nodiscard]] std::unique_ptr<GpuDevice> make_cuda_device(int local_rank,
                                                          std::optional<std::size_t> memory_limit,
                                                          int threads);

}  // namespace paceline
