#include "core/blas_kernels.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

// Only OpenBLAS has this function.
extern "C" __attribute__((weak)) char* openblas_get_corename();

namespace paceline {

namespace {

constexpr const char* variable = "OPENBLAS_CORETYPE";

// From the oldest.
constexpr std::array<VectorLevel, 5> levels = {{{"Prescott", "SSE3"},
                                                {"Nehalem", "SSE4.2"},
                                                {"Sandybridge", "AVX"},
                                                {"Haswell", "AVX2 and FMA"},
                                                {"SkylakeX", "AVX-512"}}};

// The names of OpenBLAS's core types, by level. Names that are not here are of the newest.
constexpr std::array<std::string_view, 4> names_by_level = {
    " Katmai Coppermine Northwood Prescott Banias Atom Core2 Penryn Dunnington Athlon Opteron "
    "Opteron_SSE3 Barcelona Nano Bobcat ",
    " Nehalem ", " Sandybridge Bulldozer Piledriver ", " Haswell Zen Steamroller Excavator "};

std::size_t level_of(std::string_view core_type) {
  const auto named = [&](std::string_view names) {
    return names.find(fmt::format(" {} ", core_type)) != std::string_view::npos;
  };
  const auto level = std::find_if(names_by_level.begin(), names_by_level.end(), named);
  return static_cast<std::size_t>(level - names_by_level.begin());
}

}  // namespace

VectorLevel processor_level() {
#ifdef __x86_64__
  const auto level = [] {
    if (!__builtin_cpu_supports("sse4.2")) return 0;
    if (!__builtin_cpu_supports("avx")) return 1;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 2;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    return avx512 ? 4 : 3;
  };
  return levels.at(static_cast<std::size_t>(level()));
#else
  return {};
#endif
}

std::string older_kernels(std::string_view core_type, const VectorLevel& processor) {
  const std::size_t level = level_of(core_type);
  if (processor.core_type.empty() || level >= level_of(processor.core_type)) return "";
  return fmt::format(
      "OpenBLAS computes with its kernels for {} ({}), but the processor has {}: set {}={}",
      core_type, levels.at(level).instructions, processor.instructions, variable,
      processor.core_type);
}

std::string older_blas_kernels() {
  if (openblas_get_corename == nullptr) return "";
  return older_kernels(openblas_get_corename(), processor_level());
}

void choose_blas_kernels(char** argv) {
  if (std::getenv(variable) != nullptr || older_blas_kernels().empty()) return;
  setenv(variable, std::string(processor_level().core_type).c_str(), 1);
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown) execv(program.c_str(), argv);
  unsetenv(variable);
}

}  // namespace paceline
