#include "core/error.h"
#include "mpi/nccl_communicator.h"

namespace paceline {

std::string nccl_version() { return ""; }

void limit_window_blocks() {}

std::unique_ptr<Communicator> make_nccl_communicator(World& /*world*/, GpuDevice& /*device*/) {
  throw EnvironmentError(
      "--backend: this build has no NCCL; use --backend mpi, or build where nccl.h is");
}

}  // namespace paceline
