#pragma once
// Recognises NCCL's out-of-memory warnings, since NCCL has no result code for them.

#include <cstddef>
#include <optional>
#include <string_view>

namespace paceline {

// The bytes that NCCL could not allocate, on the GPU or on the host; 0 if the warning does not say
// how many; nullopt if it reports no failed allocation. last_warning: ncclGetLastError() after a
// failed call. Valid only if the GPU still works: after an unrecoverable CUDA error, NCCL's
// allocations fail with the same warnings.
// Source: src/include/checks.h and src/include/alloc.h of NCCL 2.28.
[[nodiscard]] std::optional<std::size_t> failed_allocation_bytes(std::string_view last_warning);

}  // namespace paceline
