// The blocks of a cluster exchange numbers through distributed shared memory.

#include "cuda/hopper/cluster.cuh"
#include "cuda/runtime/launch.cuh"
#include "tests/gpu/hopper_test.cuh"

namespace paceline {
namespace {

using namespace hopper;

constexpr int threads = 64;
constexpr int rounds = 50;
constexpr int max_blocks = 8;

// A different number for each element, exact in float.
__host__ __device__ float sent(int round, int from, int to, int thread, int i) {
  return static_cast<float>((((round * 16 + from) * 8 + to) * threads + thread) * 5 + i);
}

struct Received {
  float4 four[max_blocks][threads];
  float one[max_blocks][threads];
  Barrier full, empty;
};

// out[round][block][from][thread][5]: what each block has received.
__global__ void exchange(float* out, int blocks) {
  __shared__ Received shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int block = static_cast<int>(blockIdx.x);
  const int cluster_rank = block % blocks;
  if (thread == 0) {
    shared.full.init(1);
    shared.empty.init(blocks * threads / 32);
    barriers_are_ready();
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  for (int round = 0; round < rounds; ++round) {
    __nanosleep((round * 37 + block * 101) % 13 * 200);
    if (round > 0) {
      __syncwarp();
      if (lane() < blocks) shared.empty.arrive_at(lane());
      shared.empty.wait_for_cluster(round - 1 & 1);
    }
    if (thread == 0) {
      shared.full.arrive_and_expect(blocks * threads * static_cast<int>(5 * sizeof(float)));
    }
    for (int to = 0; to < blocks; ++to) {
      const auto x = [&](int i) { return sent(round, block, to, thread, i); };
      const int float4s = thread * static_cast<int>(sizeof(float4));
      send(RemoteAddress(shared.four[cluster_rank], shared.full, to), float4s,
           make_float4(x(0), x(1), x(2), x(3)));
      send(RemoteAddress(&shared.one[cluster_rank][thread], shared.full, to), 0, x(4));
    }
    shared.full.wait_for_cluster(round & 1);
    for (int from = 0; from < blocks; ++from) {
      const int slot = (round * static_cast<int>(gridDim.x) + block) * blocks + from;
      float* const to = out + (slot * threads + thread) * 5;
      const float4 four = shared.four[from][thread];
      to[0] = four.x;
      to[1] = four.y;
      to[2] = four.z;
      to[3] = four.w;
      to[4] = shared.one[from][thread];
    }
  }
}

using HopperCluster = Hopper;

TEST_F(HopperCluster, BlocksReceiveWhatTheOthersSend) {
  for (const int blocks : {2, 4, 8}) {
    const int all = 2 * blocks;
    const int numbers = rounds * all * blocks * threads * 5;
    const DeviceArray<float> out(std::vector<float>(static_cast<std::size_t>(numbers), -1));
    launch({.blocks = static_cast<unsigned>(all),
            .threads = threads,
            .cluster = static_cast<unsigned>(blocks)},
           exchange, out.get(), blocks);
    CUDA_CHECK(cudaDeviceSynchronize());
    const std::vector<float> got = out.read();
    for (int i = 0; i < numbers; ++i) {
      const int thread = i / 5 % threads;
      const int from = i / 5 / threads % blocks;
      const int block = i / 5 / threads / blocks % all;
      const int round = i / 5 / threads / blocks / all;
      const int sender = block / blocks * blocks + from;
      ASSERT_EQ(got.at(static_cast<std::size_t>(i)),
                sent(round, sender, block % blocks, thread, i % 5))
          << blocks << " blocks, round " << round << ", block " << block << " from " << from;
    }
  }
}

TEST_F(HopperCluster, ResidentClustersFillTheMultiprocessors) {
  for (const unsigned blocks : {2U, 4U, 8U}) {
    const int clusters = resident_clusters(
        {.blocks = blocks, .threads = 1024, .shared_bytes = 200 << 10, .cluster = blocks},
        exchange);
    const int running = clusters * static_cast<int>(blocks);
    EXPECT_LE(running, multiprocessors());
    EXPECT_GE(running, multiprocessors() * 3 / 4);
  }
}

}  // namespace
}  // namespace paceline
