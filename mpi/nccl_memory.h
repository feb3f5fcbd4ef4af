#pragma once
// What NCCL says when it lacks memory: it has no result code for that.

#include <cstddef>
#include <optional>
#include <string_view>

namespace paceline {

// The bytes that NCCL could not allocate, on the GPU or on the host; 0 where it does not say how
// many; nullopt if memory was not what it lacked. last_warning: of ncclGetLastError(), after a call
// that failed on a GPU that still works: after an error that is not about memory, and from which
// CUDA does not recover, NCCL says the same of its allocations.
// Source: src/include/checks.h and src/include/alloc.h of NCCL 2.28.
[[nodiscard]] std::optional<std::size_t> bytes_lacking(std::string_view last_warning);

}  // namespace paceline
