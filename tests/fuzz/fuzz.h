#pragma once
// Shared by the fuzz targets. For bad input a parser throws a UsageError with a message of one
// line; any other exception is a finding.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/non_copyable.h"

namespace paceline::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Whether work() returns without a UsageError.
template <class F>
bool accepted(const F& work) {
  try {
    work();
    return true;
  } catch (const UsageError& error) {
    const std::string_view what = error.what();
    require(!what.empty() && what.find('\n') == std::string_view::npos);
    return false;
  }
}

// A file with these bytes, in memory only (memfd).
class MemoryFile : NonCopyable {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0);
    require(write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { close(descriptor_); }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace paceline::fuzz
