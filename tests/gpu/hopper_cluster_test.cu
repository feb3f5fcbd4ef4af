// Blocks of a cluster that read each other's shared memory, round after round.

#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/cluster.cuh"
#include "cuda/launch.cuh"
#include "tests/gpu/hopper_test.cuh"

namespace paceline {
namespace {

using namespace hopper;

constexpr int threads = 64;
constexpr int rounds = 50;

// out[round][block][thread]: the sum of what that thread of every block of the cluster has shared.
__global__ void add_up(int* out, int blocks) {
  __shared__ int shared[threads];
  __shared__ Barrier full, empty;
  const int thread = static_cast<int>(threadIdx.x);
  const int block = static_cast<int>(blockIdx.x);
  if (thread == 0) {
    full.init(blocks * threads / 32);
    empty.init(blocks * threads / 32);
    barriers_are_ready();
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  int parity = 0;
  for (int round = 0; round < rounds; ++round, parity ^= 1) {
    __nanosleep((round * 37 + block * 101) % 13 * 200);
    empty.wait_for_cluster(parity ^ 1);
    shared[thread] = (round * 100 + block) * 1000 + thread;
    __syncwarp();
    if (lane() < blocks) full.arrive_at(lane());
    full.wait_for_cluster(parity);
    int sum = 0;
    for (int rank = 0; rank < blocks; ++rank) sum += of_block(shared, rank)[thread];
    __syncwarp();
    if (lane() < blocks) empty.arrive_at(lane());
    out[(round * static_cast<int>(gridDim.x) + block) * threads + thread] = sum;
  }
  empty.wait_for_cluster(parity ^ 1);
}

using HopperCluster = Hopper;

TEST_F(HopperCluster, BlocksReadWhatTheOthersHaveShared) {
  for (const int blocks : {2, 4, 8}) {
    const int all = 2 * blocks;
    const DeviceArray<int> out(std::vector<int>(static_cast<std::size_t>(rounds * all * threads)));
    launch({.blocks = static_cast<unsigned>(all),
            .threads = threads,
            .cluster = static_cast<unsigned>(blocks)},
           add_up, out.get(), blocks);
    CUDA_CHECK(cudaDeviceSynchronize());
    const std::vector<int> got = out.read();
    for (int i = 0; i < rounds * all * threads; ++i) {
      const int thread = i % threads;
      const int first = i / threads % all / blocks * blocks;
      const int round = i / threads / all;
      int want = 0;
      for (int b = first; b < first + blocks; ++b) want += (round * 100 + b) * 1000 + thread;
      ASSERT_EQ(got.at(static_cast<std::size_t>(i)), want) << blocks << " blocks, round " << round;
    }
  }
}

TEST_F(HopperCluster, SoManyRunAtTheSameTime) {
  for (const unsigned blocks : {2U, 4U, 8U}) {
    const int clusters = resident_clusters(
        {.blocks = blocks, .threads = 1024, .shared_bytes = 200 << 10, .cluster = blocks}, add_up);
    const int running = clusters * static_cast<int>(blocks);
    EXPECT_LE(running, multiprocessors());
    EXPECT_GE(running, multiprocessors() * 3 / 4);
  }
}

}  // namespace
}  // namespace paceline
