// The last kernel of the backward pass: scales the sums of dQ, dK and dV and rounds them to the
// inputs' dtype. The sums are in the order of the elements of a warpgroup's accumulator.

#include "cuda/attention/head_dim.h"
#include "cuda/attention/hopper/sm90.h"
#include "cuda/attention/hopper/sm90_backward.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

struct Gradient {
  const float* sums;
  FlashHeads to;
  int groups;  // of 64 rows, over all heads
  float scale;
};

struct Parameters {
  Gradient gradients[3];  // dQ, dK and dV
  int context;
  FastDivmod groups_per_head;  // of queries
  FastDivmod heads;
  StreamKScheduler scheduler;
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

// One block for each panel of columns of 64 rows.
template <class T, class Tile>
__global__ void __launch_bounds__(hopper::warpgroup_threads)
    finish_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  const int panel = static_cast<int>(blockIdx.x) % Tile::panels;
  int group = static_cast<int>(blockIdx.x) / Tile::panels;
  int which = 0;
  for (; group >= p.gradients[which].groups; ++which) group -= p.gradients[which].groups;
  const Gradient& gradient = p.gradients[which];
  const int floats = which == 0 ? Tile::panels * Tile::dq_floats : 64 * Tile::head_dim;
  const float* const sums =
      gradient.sums + static_cast<std::int64_t>(group) * floats + panel * Tile::dq_floats;
  int batch = 0;
  int head = 0;
  int first = 0;
  if (which == 0) {
    const int bh = group / p.groups_per_head;
    batch = bh / p.heads;
    head = bh % p.heads;
    first = group % p.groups_per_head * 64;
  } else {
    constexpr int groups = Tile::keys / 64;
    if (!p.scheduler.has_parts(group / groups)) return;  // already stored by its one block
    const WorkItem tile =
        p.scheduler.order().tile(p.scheduler.data_parallel_tiles() + group / groups);
    batch = tile.batch;
    head = tile.head;
    first = (tile.index_in_head * groups + group % groups) * 64;
  }
  T* const to = gradient.to.head<T>(batch, head) + panel * Tile::dq_cols;
  if (Tile::last_cols == Tile::dq_cols || panel < Tile::panels - 1) {
    finish<T, Tile::dq_cols>(to, gradient, sums, first, p.context);
  } else {
    finish<T, Tile::last_cols>(to, gradient, sums, first, p.context);
  }
}

}  // namespace

void sm90_backward_finish(const FlashBackward& call, const BackwardWorkspace& workspace,
                          const StreamKScheduler& scheduler) {
  dispatch_half(call.shape.dtype, [&]<class T>() {
    dispatch_head_dim(call.shape.head_dim, [&]<int HeadDim>() {
      using Tile = BackwardTile<HeadDim>;
      const int groups_per_head = workspace.rows / 64;
      const int dq_groups = scheduler.order().all_heads() * groups_per_head;
      const int dk_groups = scheduler.stream_k_tiles() * (Tile::keys / 64);
      const Parameters parameters{.gradients = {{workspace.dq, call.dq, dq_groups, call.scale},
                                                {workspace.dk, call.dk, dk_groups, call.scale},
                                                {workspace.dv, call.dv, dk_groups, 1}},
                                  .context = static_cast<int>(call.shape.context),
                                  .groups_per_head = FastDivmod(groups_per_head),
                                  .heads = FastDivmod(scheduler.order().heads()),
                                  .scheduler = scheduler};
      const auto blocks = static_cast<unsigned>((dq_groups + 2 * dk_groups) * Tile::panels);
      launch({blocks, hopper::warpgroup_threads, call.stream}, finish_kernel<T, Tile>, parameters);
    });
  });
}

}  // namespace paceline
