#include "cpu/available.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "core/error.h"

namespace paceline {

namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

// The number in a file of one word; `unlimited` when there is none ("max").
std::size_t number_in(const char* path) {
  std::ifstream in(path);
  std::size_t value = 0;
  return in >> value ? value : unlimited;
}

std::size_t left(const char* limit_path, const char* used_path) {
  const std::size_t limit = number_in(limit_path);
  const std::size_t used = number_in(used_path);
  if (limit == unlimited || used == unlimited) return unlimited;
  return limit - std::min(limit, used);
}

std::size_t meminfo_available() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  std::size_t kib = 0;
  std::string unit;
  while (in >> key >> kib && std::getline(in, unit)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return unlimited;
}

}  // namespace

std::size_t available_memory() {
  const std::size_t least = std::min(
      {meminfo_available(), left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
       left("/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes")});
  if (least == unlimited) {
    throw EnvironmentError("cannot tell how much memory is available; use --memory-limit");
  }
  return least;
}

}  // namespace paceline
