#pragma once
// StartGuard: how the process ends if MPI_Init_thread() fails. Open MPI does not return from it: it
// aborts the launch with code 1.

#include "core/error.h"
#include "core/non_copyable.h"

namespace paceline {

// While it exists, Open MPI's abort ends this process with the code that `report` returns, which is
// given an EnvironmentError. One at a time.
class StartGuard : NonCopyable {
 public:
  using Report = ExitCode (*)(const Error& error);

  explicit StartGuard(Report report);
  ~StartGuard();
};

}  // namespace paceline
