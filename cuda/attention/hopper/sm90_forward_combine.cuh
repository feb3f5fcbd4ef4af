#pragma once
// Combines the split-KV parts of a tile within a cluster, through distributed shared memory.

#include "cuda/attention/hopper/sm90_forward.cuh"
#include "cuda/attention/online_rows.cuh"
#include "cuda/hopper/cluster.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/kernels/exponential.cuh"

namespace paceline {

// From O_p and L_p of the parts p:
//   L = log(sum_p exp(L_p)),  O = sum_p exp(L_p - L) O_p.
// Each block combines every parts-th group of eight columns. All blocks send it their results for
// these groups, the block itself included, which saves a branch. Called by all consumers of the
// cluster.
// `before`: the number of earlier calls.
template <class Tile>
__device__ void combine_parts(const ForwardParameters& p, ForwardShared<Tile>& shared,
                              const ForwardItem<Tile>& item,
                              const hopper::Accumulator<Tile::head_dim>& o,
                              RowPair<float>& logsumexp, int warpgroup, int before) {
  using namespace hopper;
  using T = typename Tile::Element;
  const int parts = 1 << item.log2_parts;
  const int thread = static_cast<int>(threadIdx.x) % warpgroup_threads;
  const int consumer = warpgroup * warpgroup_threads + thread;
  const int row = 64 * warpgroup + o.row();
  if (before == 0) {
    cluster_wait();  // the barriers of all blocks are initialised
  } else {           // wait until the results of the previous call have been read
    __syncwarp();
    if (lane() < parts) shared.parts_empty.arrive_at(lane());
    shared.parts_empty.wait_for_cluster(before - 1 & 1);
  }
  if (consumer == 0) {
    const int own_groups = (Tile::groups - item.part + parts - 1) >> item.log2_parts;
    shared.parts_full.arrive_and_expect(
        static_cast<int>(parts * (own_groups * sizeof(shared.o[0]) + sizeof(shared.logsumexp[0]))));
  }
  // Group g of this part goes to o[g - owner + part] of its owner, next to the other parts.
  constexpr int slots = Tile::max_parts;
  RemoteAddress slot[slots];  // of groups g, g + slots, ...
#pragma unroll
  for (int i = 0; i < slots; ++i) {
    const int owner = i & parts - 1;
    slot[i] = RemoteAddress(&shared.o[i - owner + item.part][consumer], shared.parts_full, owner);
  }
#pragma unroll
  for (int g = 0; g < Tile::groups; ++g) {
    send(slot[g % slots], g / slots * slots * static_cast<int>(sizeof(shared.o[0])),
         make_float4(o.at[4 * g], o.at[4 * g + 1], o.at[4 * g + 2], o.at[4 * g + 3]));
  }
  static_assert(Tile::max_parts <= 4);  // each of a row's four lanes sends to one block
  if (const int to = thread % 4; to < parts) {
    const RemoteAddress to_row(&shared.logsumexp[item.part][row], shared.parts_full, to);
    send(to_row, 0, logsumexp.of[0]);
    send(to_row, 8 * static_cast<int>(sizeof(float)), logsumexp.of[1]);
  }
  shared.parts_full.wait_for_cluster(before & 1);

  RowPair<float> l[Tile::max_parts];
#pragma unroll
  for (int part = 0; part < Tile::max_parts; ++part) {
    l[part] = {-INFINITY, -INFINITY};
    if (part < parts) l[part] = {shared.logsumexp[part][row], shared.logsumexp[part][row + 8]};
  }
  RowPair<float> weight[Tile::max_parts];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float max = -INFINITY;
#pragma unroll
    for (const RowPair<float>& x : l) max = fmaxf(max, x.of[h]);
    float sum = 0;
#pragma unroll
    for (int part = 0; part < Tile::max_parts; ++part) {
      weight[part].of[h] = fast_exp(l[part].of[h] - max);
      sum += weight[part].of[h];
    }
    const float inverse = fast_reciprocal(sum);
#pragma unroll
    for (RowPair<float>& w : weight) w.of[h] *= inverse;
    logsumexp.of[h] = max + fast_log2(sum) * ln2;
  }
  T* const to = p.o.head<T>(item.batch, item.head) + (item.first_query + row) * p.o.row_stride +
                2 * (thread % 4);
#pragma unroll 1  // short code, as in produce()
  for (int first = 0; first + item.part < Tile::groups; first += parts) {
    float4 sum = {0, 0, 0, 0};
#pragma unroll
    for (int part = 0; part < Tile::max_parts; ++part) {
      if (part >= parts) break;
      const float4 x = shared.o[first + part][consumer];
      sum.x += weight[part].of[0] * x.x;
      sum.y += weight[part].of[0] * x.y;
      sum.z += weight[part].of[1] * x.z;
      sum.w += weight[part].of[1] * x.w;
    }
    const auto store = [&](int h, float x, float y) {
      if (item.first_query + row + 8 * h >= p.context) return;
      T* const out = to + 8 * h * p.o.row_stride + 8 * (first + item.part);
      *reinterpret_cast<std::uint32_t*>(out) = packed<T>(x, y);
    };
    store(0, sum.x, sum.y);
    store(1, sum.z, sum.w);
  }
}

}  // namespace paceline
