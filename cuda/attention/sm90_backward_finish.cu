// After the backward pass: gradients in the inputs' dtype from their sums, which lie in the order
// in which a warpgroup's threads hold an accumulator's elements.

#include "cuda/attention/head_dim.h"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_backward.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/launch.cuh"

namespace paceline {

namespace {

struct Gradient {
  const float* sums;
  FlashHeads to;
  int groups;  // of 64 rows, of all heads
  float scale;
};

struct Parameters {
  Gradient gradients[3];  // dQ, dK and dV
  int context;
  Divisor groups_per_head;  // of queries
  Divisor heads;
  WorkUnits units;
};

template <class T, int Cols>
__device__ void finish(T* to, const Gradient& gradient, const float* sums, int first, int rows) {
  hopper::Accumulator<Cols> x;
#pragma unroll
  for (int i = 0; i < Cols / 2; i += 4) {
    const float4 four = reinterpret_cast<const float4*>(
        sums)[i / 4 * hopper::warpgroup_threads + static_cast<int>(threadIdx.x)];
    x.at[i] = four.x * gradient.scale;
    x.at[i + 1] = four.y * gradient.scale;
    x.at[i + 2] = four.z * gradient.scale;
    x.at[i + 3] = four.w * gradient.scale;
  }
  store_rows(to, gradient.to.row_stride, x, first, rows);
}

// A block for 64 rows and up to 64 columns.
template <class T, int HeadDim>
__global__ void __launch_bounds__(hopper::warpgroup_threads)
    finish_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  constexpr int panels = (HeadDim + 63) / 64;
  constexpr int cols = HeadDim < 64 ? HeadDim : 64;
  constexpr int last_cols = HeadDim - (panels - 1) * cols;
  const int panel = static_cast<int>(blockIdx.x) % panels;
  int group = static_cast<int>(blockIdx.x) / panels;
  int which = 0;
  for (; group >= p.gradients[which].groups; ++which) group -= p.gradients[which].groups;
  const Gradient& gradient = p.gradients[which];
  constexpr int dq_cols = panels * cols;  // of sums
  using Tile = BackwardTile<HeadDim>;
  static_assert(Tile::keys == 128 && Tile::queries * dq_cols == 2 * Tile::dq_floats);
  const std::int64_t sums_before = group * std::int64_t{64 * (which == 0 ? dq_cols : HeadDim)};
  const float* const sums = gradient.sums + sums_before + panel * (64 * cols);
  int batch = 0;
  int head = 0;
  int first = 0;
  if (which == 0) {
    const int bh = group / p.groups_per_head;
    batch = bh / p.heads;
    head = bh % p.heads;
    first = group % p.groups_per_head * 64;
  } else {
    if (!p.units.divides(group / 2)) return;  // it has been stored as it was computed
    const WorkItem tile = p.units.order().tile(p.units.whole() + group / 2);
    batch = tile.batch;
    head = tile.head;
    first = (2 * tile.rank + group % 2) * 64;
  }
  T* const to = gradient.to.head<T>(batch, head) + panel * cols;
  if (last_cols == cols || panel < panels - 1) {
    finish<T, cols>(to, gradient, sums, first, p.context);
  } else {
    finish<T, last_cols>(to, gradient, sums, first, p.context);
  }
}

}  // namespace

void sm90_backward_finish(const FlashBackward& call, const BackwardSpace& space,
                          const WorkUnits& units) {
  const int groups_per_head = space.rows / 64;
  const int shared = 2 * units.shared();
  const Parameters parameters{
      .gradients = {{space.dq, call.dq, units.order().all_heads() * groups_per_head, call.scale},
                    {space.dk, call.dk, shared, call.scale},
                    {space.dv, call.dv, shared, 1}},
      .context = static_cast<int>(call.shape.context),
      .groups_per_head = Divisor(groups_per_head),
      .heads = Divisor(units.order().heads()),
      .units = units};
  dispatch_half(call.shape.dtype, [&]<class T>() {
    dispatch_head_dim(call.shape.head_dim, [&]<int HeadDim>() {
      const int panels = (HeadDim + 63) / 64;
      const auto blocks =
          static_cast<unsigned>((parameters.gradients[0].groups + 2 * shared) * panels);
      launch({blocks, hopper::warpgroup_threads, call.stream}, finish_kernel<T, HeadDim>,
             parameters);
    });
  });
}

}  // namespace paceline
