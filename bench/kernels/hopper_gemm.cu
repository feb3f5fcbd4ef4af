// C = A B^T on Hopper. A producer thread has TMA load 64 columns of A and B at a time into a ring
// in shared memory; each consumer warpgroup has 64 rows of C and all 256 columns of the tile.
// Blocks are persistent: the operands of the next tile are loaded while a tile is stored. The two
// blocks of a cluster have neighbouring tiles of the same columns. Each loads half of B's rows for
// both (multicast), which reads a third less from the L2 cache.

#include "bench/kernels/hopper_gemm.h"
#include "cuda/attention/schedule/tile_order.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/hopper/cluster.cuh"
#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/tma.cuh"
#include "cuda/runtime/current_device.h"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

using namespace hopper;
using T = __nv_bfloat16;

constexpr int warpgroups = 2;  // consumers
constexpr int tile_rows = 64 * warpgroups;
constexpr int tile_cols = 256;
constexpr int blocks_of_cluster = 2;
constexpr int cluster_rows = blocks_of_cluster * tile_rows;
constexpr int rows_of_b = tile_cols / blocks_of_cluster;  // loaded by one block
constexpr int depth = 64;
constexpr int stages = 4;
constexpr int threads = warpgroup_threads * (warpgroups + 1);

struct Shared {
  SharedTile<T, tile_rows, depth> a[stages];
  SharedTile<T, tile_cols, depth> b[stages];
  Barrier full[stages], empty[stages];
};

struct Parameters {
  CUtensorMap a, b;  // groups of `depth` columns take the place of heads
  T* c;
  int M, N, steps;
  TileOrder order;  // of the tiles of clusters: head is the row of tiles, index_in_head the column
  int tiles;
};

// Cluster c computes tiles c, c + clusters, ...
__device__ int first_tile() { return blockIdx.x / blocks_of_cluster; }
__device__ int clusters() { return gridDim.x / blocks_of_cluster; }
__device__ int cluster_rank() { return blockIdx.x % blocks_of_cluster; }
__device__ int first_row(const WorkItem& tile) {
  return tile.head * cluster_rows + cluster_rank() * tile_rows;
}

__device__ void produce(const Parameters& p, Shared& shared) {
  constexpr int bytes = sizeof shared.a[0] + sizeof shared.b[0];
  const int half = cluster_rank() * rows_of_b;
  PipelineState<stages> state;
  for (int i = first_tile(); i < p.tiles; i += clusters()) {
    const WorkItem tile = p.order.tile(i);
    for (int k = 0; k < p.steps; ++k) {
      Barrier& full = shared.full[state.stage];
      shared.empty[state.stage].wait(state.phase ^ 1);
      full.arrive_and_expect(bytes);
      load(shared.a[state.stage], p.a, full, first_row(tile), k, 0);
      load_in_cluster(shared.b[state.stage], half, blocks_of_cluster, p.b, full,
                      tile.index_in_head * tile_cols + half, k, 0);
      state.advance();
    }
  }
}

// Tells the producers of both blocks, because both write to this block's ring.
__device__ void release(Barrier& empty) {
  if (lane() < blocks_of_cluster) empty.arrive_at(lane());
}

__device__ void consume(const Parameters& p, Shared& shared, int warpgroup) {
  PipelineState<stages> state;
  for (int i = first_tile(); i < p.tiles; i += clusters()) {
    const WorkItem tile = p.order.tile(i);
    Accumulator<tile_cols> sums;
    int previous = 0;  // stage of the previous product
    for (int k = 0; k < p.steps; ++k) {
      shared.full[state.stage].wait(state.phase);
      begin(sums);
      mma_abt(sums, shared.a[state.stage], 64 * warpgroup, shared.b[state.stage], k > 0);
      commit();
      // Waits for the previous product, so that one is always in flight.
      wait<1>(sums);
      if (k > 0) release(shared.empty[previous]);
      previous = state.stage;
      state.advance();
    }
    wait<0>(sums);
    release(shared.empty[previous]);
    store_rows(p.c + tile.index_in_head * tile_cols, p.N, sums, first_row(tile) + 64 * warpgroup,
               p.M);
  }
}

__global__ void __launch_bounds__(threads, 1)
    hopper_gemm_kernel(const __grid_constant__ Parameters p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory);
  const int warpgroup = warpgroup_index();
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      shared.full[s].init(1);
      shared.empty[s].init(4 * warpgroups * blocks_of_cluster);
    }
    barriers_are_ready();
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  wait_for_stream();
  if (warpgroup == 0) {
    deallocate_registers<24>();
    if (threadIdx.x == 0) produce(p, shared);
  } else {
    allocate_registers<240>();
    consume(p, shared, warpgroup - 1);
  }
  // A block must not exit while another one still accesses its barriers and tiles.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace

void hopper_gemm(const HopperGemm& call) {
  const auto map = [&](void* x, int rows, int box_rows) {
    const std::int64_t all = static_cast<std::int64_t>(rows) * call.K;
    return tensor_map(
        {.data = x, .sizes = {depth, rows, call.K / depth, 1}, .strides = {call.K, depth, all}},
        box_rows, depth);
  };
  // Blocks that run at the same time cover a square of C, to share rows of A and B in the L2 cache.
  constexpr int section = 8;
  const TileOrder order({.context = call.N,
                         .heads = (call.M + cluster_rows - 1) / cluster_rows,
                         .batch = 1,
                         .outer = tile_cols,
                         .inner = call.N,
                         .causal = false,
                         .reach = call.N,
                         .section = section});
  const Parameters parameters{.a = map(call.a, call.M, tile_rows),
                              .b = map(call.b, call.N, rows_of_b),
                              .c = static_cast<T*>(call.c),
                              .M = call.M,
                              .N = call.N,
                              .steps = call.K / depth,
                              .order = order,
                              .tiles = order.tiles()};
  constexpr std::size_t bytes = sizeof(Shared);
  static_assert(bytes <= 227 * 1024);
  auto* const kernel = hopper_gemm_kernel;
  const int clusters = min(parameters.tiles, multiprocessors() / blocks_of_cluster);
  launch({static_cast<unsigned>(clusters * blocks_of_cluster), threads, call.stream, bytes,
          blocks_of_cluster},
         kernel, parameters);
}

}  // namespace paceline
