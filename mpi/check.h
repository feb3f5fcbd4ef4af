#pragma once
#include <mpi.h>

#include <array>
#include <string>

#include "core/error.h"

namespace paceline {

inline void throw_unless_mpi_success(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw Error(ExitCode::collective,
              std::string(call) + " failed: " + text.data() + "; a rank may have died");
}

}  // namespace paceline

#define MPI_CHECK(call) ::paceline::throw_unless_mpi_success((call), #call)
