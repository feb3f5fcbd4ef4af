// Barriers: a ring of tiles between a producer and consumers, votes of a warpgroup, loads of plain
// rows, and additions to global memory.

#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/tma.cuh"
#include "tests/gpu/hopper_test.cuh"

namespace paceline {
namespace {

using namespace hopper;

constexpr int tiles = 100;
constexpr int consumers = 2;  // warpgroups
using RingTile = SharedTile<__nv_bfloat16, 64, 64>;
constexpr int tile_elements = RingTile::bytes / 2;

template <int Stages>
struct Ring {
  static constexpr int stages = Stages;
  RingTile tile[stages];
  Barrier full[stages], empty[stages];
};

// Sleeps for a varying time, so that the leading warp changes from tile to tile.
__device__ void dawdle(int n, int warp) { __nanosleep((n * 37 + warp * 101) % 13 * 200); }

template <class Ring>
__device__ void produce(const CUtensorMap& map, Ring& ring) {
  PipelineState<Ring::stages> state;
  for (int n = 0; n < tiles; ++n) {
    dawdle(n, 7);
    ring.empty[state.stage].wait(state.phase ^ 1);
    ring.full[state.stage].arrive_and_expect(RingTile::bytes);
    load(ring.tile[state.stage], map, ring.full[state.stage], n * RingTile::rows, 0, 0);
    state.advance();
  }
}

template <class Ring>
__device__ void consume(Ring& ring, int warpgroup, std::uint16_t* out) {
  PipelineState<Ring::stages> state;
  const int thread = static_cast<int>(threadIdx.x) % warpgroup_threads;
  for (int n = 0; n < tiles; ++n) {
    ring.full[state.stage].wait(state.phase);
    dawdle(n, warpgroup * 4 + warp_in_warpgroup());
    const auto* const raw = reinterpret_cast<const std::uint16_t*>(ring.tile[state.stage].data);
    std::uint16_t* const to = out + (warpgroup * tiles + n) * tile_elements;
    for (int i = thread; i < tile_elements; i += warpgroup_threads) to[i] = raw[i];
    __syncwarp();
    if (lane() == 0) ring.empty[state.stage].arrive();
    state.advance();
  }
}

template <class Ring>
__global__ void __launch_bounds__(warpgroup_threads*(consumers + 1), 1)
    pass_tiles(const __grid_constant__ CUtensorMap map, std::uint16_t* out) {
  auto& ring = shared_as<Ring>();
  const int warpgroup = warpgroup_index();
  if (threadIdx.x == 0) {
    for (int s = 0; s < Ring::stages; ++s) {
      ring.full[s].init(1);
      ring.empty[s].init(4 * consumers);
    }
    barriers_are_ready();
  }
  __syncthreads();
  if (warpgroup == 0) {
    deallocate_registers<24>();
    if (threadIdx.x == 0) produce(map, ring);
  } else {
    allocate_registers<240>();
    consume(ring, warpgroup - 1, out);
  }
}

using HopperRing = Hopper;

TEST_F(HopperRing, PassesEveryTileToBothConsumersInOrder) {
  std::vector<std::uint16_t> x(tiles * tile_elements);
  std::vector<std::uint16_t> want(consumers * x.size());
  for (int n = 0; n < tiles; ++n) {
    for (int i = 0; i < tile_elements; ++i) {
      const auto code = static_cast<std::uint16_t>(5 * i + 7919 * n);
      x[static_cast<std::size_t>(n * tile_elements + i)] = code;
      const int at = n * tile_elements + RingTile::offset(i / 64, i % 64) / 2;
      for (int c = 0; c < consumers; ++c) {
        want[static_cast<std::size_t>(c * tiles * tile_elements + at)] = code;
      }
    }
  }
  const DeviceArray<std::uint16_t> in(x);
  const auto size = static_cast<std::int64_t>(x.size());
  const CUtensorMap map =
      tensor_map({.data = in.get(), .sizes = {64, size / 64, 1, 1}, .strides = {64, size, size}},
                 RingTile::rows, 64);
  const auto expect = [&]<int stages>() {
    const DeviceArray<std::uint16_t> out(std::vector<std::uint16_t>(want.size(), 0xDEAD));
    run(pass_tiles<Ring<stages>>, 1, warpgroup_threads * (consumers + 1), sizeof(Ring<stages>), map,
        out.get());
    expect_same(out.read(), want, tile_elements,
                "tiles, one a row, of each consumer; stages: " + std::to_string(stages));
  };
  expect.operator()<2>();
  expect.operator()<3>();
}

// ---- votes -------------------------------------------------------------------------------------

// against: the thread that votes against each ballot, or -1.
__global__ void vote(const int* against, int ballots, std::uint16_t* passed) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int n = 0; n < ballots; ++n) {
    dawdle(n, thread / 32);
    const bool all =
        named_barrier_all(1 + warpgroup_index(), warpgroup_threads, thread != against[n]);
    passed[n * blockDim.x + threadIdx.x] = all ? 1 : 0;
  }
}

TEST_F(HopperRing, ANamedBarrierPassesIfNoThreadOfTheWarpgroupVotesAgainst) {
  const std::vector<int> against = {-1, 0, -1, 31, 64, 127, 128, -1, 200, 255, 5, -1};
  constexpr int threads = 2 * warpgroup_threads;
  std::vector<std::uint16_t> want;
  for (const int thread : against) {
    for (int t = 0; t < threads; ++t) {
      const bool own = thread >= 0 && thread / warpgroup_threads == t / warpgroup_threads;
      want.push_back(own ? 0 : 1);
    }
  }
  const DeviceArray<int> in(against);
  const DeviceArray<std::uint16_t> out(std::vector<std::uint16_t>(want.size(), 0xDEAD));
  run(vote, 1, threads, 0, in.get(), static_cast<int>(against.size()), out.get());
  expect_same(out.read(), want, threads, "threads, one ballot a row");
}

// ---- plain rows --------------------------------------------------------------------------------

constexpr int max_floats = 256;

struct Row {
  alignas(128) float at[max_floats];
  Barrier full;
};

__global__ void load_row(const float* from, float* to, int floats) {
  auto& shared = shared_as<Row>();
  for (int i = threadIdx.x; i < max_floats; i += blockDim.x) shared.at[i] = -1;
  publish_to_async_proxy();
  if (threadIdx.x == 0) {
    shared.full.init(1);
    barriers_are_ready();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.full.arrive_and_expect(floats * 4);
    load(shared.at, from, shared.full, floats);
  }
  shared.full.wait(0);
  for (int i = threadIdx.x; i < max_floats; i += blockDim.x) to[i] = shared.at[i];
}

TEST_F(HopperRing, LoadsNeighbouringFloatsAndNoMore) {
  std::vector<float> x(2 * max_floats);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const DeviceArray<float> in(x);
  for (const int floats : {4, 64, 80, 128, 256}) {
    const DeviceArray<float> out(std::vector<float>(max_floats, 0));
    run(load_row, 1, 128, sizeof(Row), in.get() + 12, out.get(), floats);
    std::vector<float> want(max_floats, -1);
    for (int i = 0; i < floats; ++i) want[static_cast<std::size_t>(i)] = static_cast<float>(12 + i);
    expect_same(out.read(), want, max_floats, std::to_string(floats) + " floats");
  }
}

}  // namespace
}  // namespace paceline
