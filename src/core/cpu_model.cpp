#include "core/cpu_model.h"

#include <sys/utsname.h>

#include <fstream>

namespace paceline {

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname system{};
  uname(&system);
  return std::string(system.machine) + " processor";
}

}  // namespace paceline
