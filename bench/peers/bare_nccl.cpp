// ncclAllReduce of floats without paceline, the baseline of `collectives --backend nccl`.
// Usage: mpirun bare_nccl STEPS BYTES..., one GPU per rank; a sample is 20 calls between two
// events, as with `--cadence back-to-back`.

#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "bench/peers/bare.h"

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CUDA(call) check((call) == cudaSuccess, #call)
#define NCCL(call) check((call) == ncclSuccess, #call)

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  int gpus = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CUDA(cudaGetDeviceCount(&gpus));
  CUDA(cudaSetDevice(rank % gpus));
  ncclUniqueId id{};
  if (rank == 0) NCCL(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, ranks, id, rank));
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  CUDA(cudaEventCreate(&begin));
  CUDA(cudaEventCreate(&end));

  const int steps = argc > 2 ? std::atoi(argv[1]) : 0;
  for (int i = 2; i < argc; ++i) {
    const auto count = static_cast<std::size_t>(std::atoll(argv[i])) / sizeof(float);
    void* send = nullptr;
    void* recv = nullptr;
    CUDA(cudaMalloc(&send, count * sizeof(float)));
    CUDA(cudaMalloc(&recv, count * sizeof(float)));
    CUDA(cudaMemset(send, 0, count * sizeof(float)));
    paceline::bare::measure("NCCL", count * sizeof(float), steps, [&]() -> double {
      constexpr int calls = 20;
      MPI_Barrier(MPI_COMM_WORLD);
      CUDA(cudaEventRecord(begin, stream));
      for (int call = 0; call < calls; ++call) {
        NCCL(ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, stream));
      }
      CUDA(cudaEventRecord(end, stream));
      CUDA(cudaEventSynchronize(end));
      float milliseconds = 0;
      CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
      return milliseconds / 1e3 / calls;
    });
    CUDA(cudaFree(send));
    CUDA(cudaFree(recv));
  }
  ncclCommDestroy(comm);
  MPI_Finalize();
}
