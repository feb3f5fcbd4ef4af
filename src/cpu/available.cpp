#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/host.h"
#include "cpu/cpu_device.h"

namespace paceline {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max() / kib * kib;

// The number in a file of one word; `unlimited` if it is not a number ("max") or has no file.
std::size_t bytes_in(const fs::path& path) {
  std::ifstream in(path);
  std::size_t value = 0;
  return in >> value ? value : unlimited;
}

// The number after `key` in a file of lines "key number ..."; `otherwise` if the key is absent.
std::size_t number_of(const fs::path& path, const std::string& key, std::size_t otherwise) {
  std::ifstream in(path);
  std::string name;
  std::size_t value = 0;
  for (std::string rest; in >> name >> value; std::getline(in, rest)) {
    if (name == key) return value;
  }
  return otherwise;
}

struct Names {
  const char* limit;
  const char* used;
  const char* reclaimable;  // in memory.stat: page cache, which the kernel gives up first
};

// Bytes that this process's control groups still allow: limit - (used - reclaimable).
std::size_t groups_leave(const fs::path& root) {
  std::size_t least = unlimited;
  for (const auto& [group, version2] : control_groups("memory", root)) {
    const Names names =
        version2 ? Names{"memory.max", "memory.current", "inactive_file"}
                 : Names{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
    const std::size_t limit = bytes_in(group / names.limit);
    const std::size_t used = bytes_in(group / names.used);
    if (limit == unlimited || used == unlimited) continue;
    const std::size_t cache = number_of(group / "memory.stat", names.reclaimable, 0);
    least = std::min(least, limit - std::min(limit, used - std::min(used, cache)));
  }
  return least;
}

}  // namespace

std::size_t available_memory(const fs::path& root) {
  const std::size_t machine =
      kib * number_of(root / "proc/meminfo", "MemAvailable:", unlimited / kib);
  const std::size_t least = std::min(machine, groups_leave(root));
  if (least == unlimited) {
    throw EnvironmentError("cannot tell how much memory is available; use --memory-limit");
  }
  return least;
}

// Each cache is listed once per CPU that shares it: /sys/devices/system/cpu/cpuN/cache/indexM.
std::size_t last_level_cache(const fs::path& root) {
  struct Level {
    int level = 0;
    std::map<std::string, std::size_t> bytes;  // by the CPUs that share one
  } last;
  std::error_code none;
  for (const auto& cpu : fs::directory_iterator(root / "sys/devices/system/cpu", none)) {
    for (const auto& cache : fs::directory_iterator(cpu.path() / "cache", none)) {
      int level = 0;
      std::size_t size = 0;  // KiB
      std::string cpus;
      std::ifstream(cache.path() / "level") >> level;
      std::ifstream(cache.path() / "size") >> size;
      std::ifstream(cache.path() / "shared_cpu_list") >> cpus;
      if (level > last.level) last = {.level = level, .bytes = {}};
      if (level == last.level) last.bytes[cpus] = size * kib;
    }
  }
  std::size_t sum = 0;
  for (const auto& [cpus, bytes] : last.bytes) sum += bytes;
  return sum;
}

}  // namespace paceline
