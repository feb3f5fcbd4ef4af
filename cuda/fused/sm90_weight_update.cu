// AdamW as the epilogue of the weight gradient's product dW = dY^T X, which is never stored. A
// product reads few bytes and an update computes little, so the two overlap. Blocks are
// persistent; their warps have one of three roles:
//   - one thread has TMA load 64 rows of dY and X at a time into a ring in shared memory;
//   - two consumer warpgroups each multiply 64 rows of a tile of dW, store it in shared memory and
//     go on with the next tile;
//   - epilogue warps meanwhile update the tile's weights: as many as the registers allow, to have
//     enough loads in flight.
// A launch takes several weights, as one alone may have too few tiles for its parts to overlap.

#include <algorithm>

#include "cuda/fused/weight_update.h"
#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/tma.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/kernels/adamw.cuh"
#include "cuda/runtime/current_device.h"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

using namespace hopper;
using T = __nv_bfloat16;

constexpr int tile = 128;  // rows and columns
constexpr int depth = 64;  // rows of dY and X per stage
constexpr int stages = 4;

constexpr int consumer_warps = tile / 64 * 4;
constexpr int epilogue_warps = 11;
constexpr int workers = 32 * (consumer_warps + epilogue_warps);
constexpr int threads = workers + 32;

// Named barriers of all workers: a tile of dW is in shared memory; it has been read.
constexpr int gradient_full = 1;
constexpr int gradient_empty = 2;

struct Shared {
  SharedTile<T, depth, tile> dy[stages], x[stages];
  float gradient[tile][tile + 8];  // the spare columns keep a warp's rows in different banks
  Barrier full[stages], empty[stages];
  AdamWStep step;
};

struct Weight {
  CUtensorMap dy, x;
  float *p, *m, *v;
  T* copy;
  int rows, cols;
  int first_tile;  // tiles of the weights before it

  [[nodiscard]] __host__ __device__ int tile_rows() const { return (rows + tile - 1) / tile; }
  [[nodiscard]] __host__ __device__ int tile_cols() const { return (cols + tile - 1) / tile; }
};

struct Parameters {
  Weight weights[max_weights_of_update];
  int count;  // of weights
  int tiles;  // of all weights
  int steps;  // of a tile's product
  double* scalars;
  AdamWConfig config;
};

// A tile of a weight's gradient: its first element.
struct Position {
  int weight, row, col;
};

// Sections of eight rows of tiles, so that tiles computed at the same time share rows of dY and X
// in the L2 cache.
__device__ Position position(const Parameters& p, int index) {
  constexpr int section = 8;
  int w = 0;
  while (w + 1 < p.count && p.weights[w + 1].first_tile <= index) ++w;
  const Weight& weight = p.weights[w];
  const int of_weight = index - weight.first_tile;
  const int first = of_weight / (section * weight.tile_cols()) * section;
  const int height = min(section, weight.tile_rows() - first);
  const int within = of_weight - first * weight.tile_cols();
  return {w, (first + within % height) * tile, within / height * tile};
}

// Calls f(the position) for each tile of this block.
template <class F>
__device__ void for_each_tile(const Parameters& p, F f) {
  for (int i = static_cast<int>(blockIdx.x); i < p.tiles; i += static_cast<int>(gridDim.x)) {
    f(position(p, i));
  }
}

__device__ void produce(const Parameters& p, Shared& shared) {
  constexpr int bytes = sizeof shared.dy[0] + sizeof shared.x[0];
  PipelineState<stages> state;
  for_each_tile(p, [&](Position at) {
    for (int k = 0; k < p.steps; ++k) {
      Barrier& full = shared.full[state.stage];
      shared.empty[state.stage].wait(state.phase ^ 1);
      full.arrive_and_expect(bytes);
      load(shared.dy[state.stage], p.weights[at.weight].dy, full, k * depth, 0, 0, at.row);
      load(shared.x[state.stage], p.weights[at.weight].x, full, k * depth, 0, 0, at.col);
      state.advance();
    }
  });
}

__device__ void consume(const Parameters& p, Shared& shared, int warpgroup) {
  PipelineState<stages> state;
  const auto release = [&](int stage) {
    if (lane() == 0) shared.empty[stage].arrive();
  };
  for_each_tile(p, [&](Position /*at*/) {
    Accumulator<tile> sums;
    int previous = 0;  // stage of the previous product
    for (int k = 0; k < p.steps; ++k) {
      shared.full[state.stage].wait(state.phase);
      begin(sums);
      mma_atb(sums, shared.dy[state.stage], warpgroup, shared.x[state.stage], k > 0);
      commit();
      // Waits for the previous product, so that one is always in flight.
      wait<1>(sums);
      if (k > 0) release(previous);
      previous = state.stage;
      state.advance();
    }
    wait<0>(sums);
    release(previous);
    named_barrier_sync(gradient_empty, workers);
    const int first = 64 * warpgroup + Accumulator<tile>::row();
#pragma unroll
    for (int i = 0; i < Accumulator<tile>::elements; i += 2) {
      float* const to =
          &shared.gradient[first + 8 * Accumulator<tile>::half(i)][Accumulator<tile>::col(i)];
      *reinterpret_cast<float2*>(to) = make_float2(sums.at[i], sums.at[i + 1]);
    }
    named_barrier_arrive(gradient_full, workers);
  });
}

// A warp has rows of the tile, four columns per thread.
__device__ void update(const Parameters& p, Shared& shared, int warp) {
  constexpr int width = Streamed<float>::width;
  static_assert(32 * width == tile);
  constexpr int at_once = 4;  // rows of a warp whose loads are in flight
  const AdamWStep step = shared.step;
  const int col = lane() * width;
  named_barrier_arrive(gradient_empty, workers);
  for_each_tile(p, [&](Position at) {
    const Weight& w = p.weights[at.weight];
    const auto exists = [&](int row) {
      return row < tile && at.row + row < w.rows && at.col + col < w.cols;
    };
    const auto offset = [&](int row) {
      return static_cast<std::int64_t>(at.row + row) * w.cols + at.col + col;
    };
    bool waits = true;
#pragma unroll 1
    for (int first = warp; first < tile; first += epilogue_warps * at_once) {
      Pack<float, width> weight[at_once], m[at_once], v[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int row = first + i * epilogue_warps;
        if (!exists(row)) continue;
        weight[i] = Streamed<float>::load(w.p + offset(row));
        m[i] = Streamed<float>::load(w.m + offset(row));
        v[i] = Streamed<float>::load(w.v + offset(row));
      }
      if (waits) named_barrier_sync(gradient_full, workers);
      waits = false;
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int row = first + i * epilogue_warps;
        if (!exists(row)) continue;
        const auto gradient = Pack<float, width>::load(&shared.gradient[row][col]);
        Pack<T, width> copy;
#pragma unroll
        for (int j = 0; j < width; ++j) {
          step.update(weight[i].element[j], gradient[j], m[i].element[j], v[i].element[j]);
          copy.set(j, weight[i][j]);
        }
        Streamed<float>::store(w.p + offset(row), weight[i]);
        Streamed<float>::store(w.m + offset(row), m[i]);
        Streamed<float>::store(w.v + offset(row), v[i]);
        Streamed<T>::store(w.copy + offset(row), copy);
      }
    }
    named_barrier_arrive(gradient_empty, workers);
  });
}

__global__ void __launch_bounds__(threads, 1)
    sm90_weight_update_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      shared.full[s].init(1);
      shared.empty[s].init(consumer_warps);
    }
    barriers_are_ready();
    shared.step = step_of(p.scalars, p.config);
  }
  __syncthreads();
  if (at(p.scalars, StepScalar::found_inf) != 0) return;
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < consumer_warps) {
    consume(p, shared, warp / 4);
  } else if (warp < consumer_warps + epilogue_warps) {
    update(p, shared, warp - consumer_warps);
  } else if (lane() == 0) {
    produce(p, shared);
  }
}

}  // namespace

void sm90_weight_update(const std::vector<WeightProduct>& products, cudaStream_t stream) {
  const WeightProduct& first = products.at(0);
  const std::int64_t rows = first.x.tensor().rows();
  const auto map = [&](const Tensor& x) {
    const std::int64_t all = x.numel();
    return tensor_map(
        {.data = x.data, .sizes = {x.cols(), rows, 1, 1}, .strides = {x.cols(), all, all}}, depth,
        tile);
  };
  Parameters parameters{.count = static_cast<int>(products.size()),
                        .steps = static_cast<int>((rows + depth - 1) / depth),
                        .scalars = scalars_of(*first.update.state),
                        .config = first.update.config};
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto& [dy, x, update] = products[i];
    Weight& weight = parameters.weights[i];
    weight = {.dy = map(dy),
              .x = map(x),
              .p = update.range.parameters.as<float>(),
              .m = update.range.m.as<float>(),
              .v = update.range.v.as<float>(),
              .copy = static_cast<T*>(update.range.copy.data),
              .rows = static_cast<int>(dy.tensor().cols()),
              .cols = static_cast<int>(x.tensor().cols()),
              .first_tile = parameters.tiles};
    parameters.tiles += weight.tile_rows() * weight.tile_cols();
  }
  constexpr std::size_t bytes = sizeof(Shared);
  static_assert(bytes <= 227 * 1024);
  const int blocks = std::min(parameters.tiles, multiprocessors());
  launch({static_cast<unsigned>(blocks), threads, stream, bytes}, sm90_weight_update_kernel,
         parameters);
}

}  // namespace paceline
