#pragma once
// The kernels that OpenBLAS chose for this processor. It takes very old ones, several times slower,
// for a processor that is newer than the library.

#include <string>
#include <string_view>

namespace paceline {

// Vector instructions for which OpenBLAS has kernels, and a core type with such kernels.
struct VectorLevel {
  std::string_view core_type;     // as in OPENBLAS_CORETYPE
  std::string_view instructions;  // "AVX2 and FMA"
};

// The newest that this processor has, or of a processor that is not x86, none.
[[nodiscard]] VectorLevel processor_level();

// Why kernels of this core type are older than the processor, and the remedy; empty if they are
// not.
[[nodiscard]] std::string older_kernels(std::string_view core_type, const VectorLevel& processor);

// The same of the BLAS of this process. Empty with another BLAS than OpenBLAS.
[[nodiscard]] std::string older_blas_kernels();

// Starts this program anew with OPENBLAS_CORETYPE where OpenBLAS, which reads it when it is loaded,
// chose older kernels than the processor has. Does nothing if the variable is set.
void choose_blas_kernels(char** argv);

}  // namespace paceline
