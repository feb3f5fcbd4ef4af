// C = A B^T on Hopper: a producer warp has the copy engine bring 64 columns of A and B at a time
// into a ring in shared memory; consumer warpgroups have 64 rows of C each, all 256 columns of the
// tile. Blocks stay for many tiles: while one is written, the next one's operands come.

#include "bench/kernels/hopper_gemm.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/attention/tile_order.h"
#include "cuda/current_device.h"
#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/tma.cuh"
#include "cuda/launch.cuh"

namespace paceline {

namespace {

using namespace hopper;
using T = __nv_bfloat16;

constexpr int warpgroups = 2;  // consumers
constexpr int tile_rows = 64 * warpgroups;
constexpr int tile_cols = 256;
constexpr int depth = 64;
constexpr int stages = 4;
constexpr int threads = warpgroup_threads * (warpgroups + 1);

struct Shared {
  SharedTile<T, tile_rows, depth> a[stages];
  SharedTile<T, tile_cols, depth> b[stages];
  Barrier full[stages], empty[stages];
};

struct Parameters {
  CUtensorMap a, b;  // columns in groups of `depth`, as heads
  T* c;
  int M, N, steps;
  TileOrder order;  // a tile's rows are its head, its columns its rank
  int tiles;
};

__device__ void produce(const Parameters& p, Shared& shared) {
  constexpr int bytes = sizeof shared.a[0] + sizeof shared.b[0];
  RingPlace<stages> place;
  for (int i = blockIdx.x; i < p.tiles; i += gridDim.x) {
    const WorkItem tile = p.order.tile(i);
    for (int k = 0; k < p.steps; ++k) {
      Barrier& full = shared.full[place.stage];
      shared.empty[place.stage].wait(place.parity ^ 1);
      full.arrive_and_expect(bytes);
      load(shared.a[place.stage], p.a, full, tile.head * tile_rows, k, 0);
      load(shared.b[place.stage], p.b, full, tile.rank * tile_cols, k, 0);
      place.advance();
    }
  }
}

__device__ void consume(const Parameters& p, Shared& shared, int warpgroup) {
  RingPlace<stages> place;
  for (int i = blockIdx.x; i < p.tiles; i += gridDim.x) {
    const WorkItem tile = p.order.tile(i);
    Accumulator<tile_cols> sums;
    int before = 0;  // stage of the product before
    for (int k = 0; k < p.steps; ++k) {
      shared.full[place.stage].wait(place.parity);
      begin(sums);
      mma_abt(sums, shared.a[place.stage], 64 * warpgroup, shared.b[place.stage], k > 0);
      commit();
      // One product is always under way: the last one's end is waited for.
      wait<1>(sums);
      if (k > 0 && lane() == 0) shared.empty[before].arrive();
      before = place.stage;
      place.advance();
    }
    wait<0>(sums);
    if (lane() == 0) shared.empty[before].arrive();
    store_rows(p.c + tile.rank * tile_cols, p.N, sums, tile.head * tile_rows + 64 * warpgroup, p.M);
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
      shared.empty[s].init(4 * warpgroups);
    }
    barriers_are_ready();
  }
  __syncthreads();
  wait_for_stream();
  if (warpgroup == 0) {
    give_up_registers<24>();
    if (threadIdx.x == 0) produce(p, shared);
  } else {
    take_registers<240>();
    consume(p, shared, warpgroup - 1);
  }
}

}  // namespace

void hopper_gemm(const HopperGemm& call) {
  const auto map = [&](void* x, int rows, int box_rows) {
    const std::int64_t all = static_cast<std::int64_t>(rows) * call.K;
    return tensor_map(
        {.data = x, .sizes = {depth, rows, call.K / depth, 1}, .strides = {call.K, depth, all}},
        box_rows, depth);
  };
  // Blocks that run together share rows of A and of B in the L2 cache: a square of them.
  constexpr int section = 16;
  const TileOrder order({.context = call.N,
                         .heads = (call.M + tile_rows - 1) / tile_rows,
                         .batch = 1,
                         .outer = tile_cols,
                         .inner = call.N,
                         .causal = false,
                         .reach = call.N,
                         .section = section});
  const Parameters parameters{.a = map(call.a, call.M, tile_rows),
                              .b = map(call.b, call.N, tile_cols),
                              .c = static_cast<T*>(call.c),
                              .M = call.M,
                              .N = call.N,
                              .steps = call.K / depth,
                              .order = order,
                              .tiles = order.tiles()};
  constexpr std::size_t bytes = sizeof(Shared);
  static_assert(bytes <= 227 * 1024);
  auto* const kernel = hopper_gemm_kernel;
  const int blocks = min(parameters.tiles, multiprocessors());
  launch({static_cast<unsigned>(blocks), threads, call.stream, bytes}, kernel, parameters);
}

}  // namespace paceline
