#include "mpi/nccl_memory.h"

#include <charconv>

namespace paceline {

std::optional<std::size_t> failed_allocation_bytes(std::string_view last_warning) {
  // "Cuda failure 'out of memory'", from the runtime; "Cuda failure 2 'out of memory'", from the
  // driver.
  if (last_warning.starts_with("Cuda failure ") && last_warning.ends_with("'out of memory'")) {
    return 0;
  }
  for (const std::string_view allocation :
       {"Failed to CUDA malloc ", "Failed to CUDA calloc async ", "Failed to CUDA calloc ",
        "Failed to CUDA host alloc ", "Failed to malloc "}) {
    if (!last_warning.starts_with(allocation)) continue;
    const std::string_view rest = last_warning.substr(allocation.size());
    std::size_t bytes = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
    if (error == std::errc() && std::string_view(end, rest.data() + rest.size()) == " bytes") {
      return bytes;
    }
  }
  return std::nullopt;
}

}  // namespace paceline
