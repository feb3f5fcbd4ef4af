#include "mpi/start_guard.h"

#include <dlfcn.h>
#include <mpi.h>

#include <atomic>
#include <cstdlib>

namespace paceline {

namespace {

// Global, because Open MPI's abort is passed nothing of ours.
std::atomic<StartGuard::Report> report_failed_start = nullptr;

}  // namespace

StartGuard::StartGuard(Report report) { report_failed_start = report; }

StartGuard::~StartGuard() { report_failed_start = nullptr; }

}  // namespace paceline

// In the place of the library's own: MPI_Init_thread() and MPI_Abort() call the program's function
// of this name. Other MPI libraries have none.
extern "C" int ompi_mpi_abort(MPI_Comm comm, int code) {
  using namespace paceline;
  if (const StartGuard::Report report = report_failed_start) {
    std::_Exit(static_cast<int>(report(EnvironmentError(
        "MPI does not start here, for the reason that it printed; see TMPDIR and the variables "
        "OMPI_MCA_* and PMIX_MCA_*, and under Slurm use srun --mpi=pmix"))));
  }
  const auto own = reinterpret_cast<decltype(&ompi_mpi_abort)>(dlsym(RTLD_NEXT, "ompi_mpi_abort"));
  return own(comm, code);
}
