// MPI_Allreduce of floats without paceline, the baseline of `collectives --backend mpi`.
// Usage: mpirun bare_mpi STEPS BYTES...; a sample is one call after a barrier.

#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "bench/peers/bare.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int steps = argc > 2 ? std::atoi(argv[1]) : 0;
  for (int i = 2; i < argc; ++i) {
    const auto count = std::atoll(argv[i]) / static_cast<long long>(sizeof(float));
    const std::vector<float> send(static_cast<std::size_t>(count), 1);
    std::vector<float> recv(send.size(), 0);
    paceline::bare::measure("Open MPI", count * sizeof(float), steps, [&] {
      MPI_Barrier(MPI_COMM_WORLD);
      const double began = MPI_Wtime();
      MPI_Allreduce(send.data(), recv.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      return MPI_Wtime() - began;
    });
  }
  MPI_Finalize();
}
