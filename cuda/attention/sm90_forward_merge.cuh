#pragma once
// How the blocks of a cluster put a tile together, of whose keys each has seen a part.

#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/sm90_forward.cuh"
#include "cuda/exponential.cuh"
#include "cuda/hopper/cluster.cuh"
#include "cuda/hopper/wgmma.cuh"

namespace paceline {

// O and the logsumexp from those of the parts:
//   L = log(sum_p exp(L_p)),  O = sum_p exp(L_p - L) O_p.
// Each block puts together every so many groups of eight columns, which the others send it. By all
// consumers of the cluster; `before`: so many times.
template <class Tile>
__device__ void merge(const ForwardParameters& p, ForwardShared<Tile>& shared,
                      const ForwardItem<Tile>& item, const hopper::Accumulator<Tile::head_dim>& o,
                      RowPair<float>& logsumexp, int warpgroup, int before) {
  using namespace hopper;
  using T = typename Tile::Element;
  const int parts = 1 << item.log2_parts;
  const int thread = static_cast<int>(threadIdx.x) % warpgroup_threads;
  const int consumer = warpgroup * warpgroup_threads + thread;
  const int row = 64 * warpgroup + o.row();
  if (before > 0) {  // what was sent then has been read
    __syncwarp();
    if (lane() < parts) shared.parts_empty.arrive_at(lane());
    shared.parts_empty.wait_for_cluster(before - 1 & 1);
  }
  if (consumer == 0) {
    const int own_groups = (Tile::groups - item.part + parts - 1) >> item.log2_parts;
    shared.parts_full.arrive_and_expect(static_cast<int>(
        (parts - 1) * own_groups * sizeof(shared.o[0]) + parts * sizeof(shared.logsumexp[0])));
  }
#pragma unroll
  for (int g = 0; g < Tile::groups; ++g) {
    const int owner = g & parts - 1;
    float4* const to = &shared.o[g - owner + item.part][consumer];
    const float4 x = make_float4(o.at[4 * g], o.at[4 * g + 1], o.at[4 * g + 2], o.at[4 * g + 3]);
    if (owner == item.part) {
      *to = x;  // read by this thread alone
    } else {
      send(to, shared.parts_full, owner, x);
    }
  }
  static_assert(Tile::most_parts <= 4);  // a row's four lanes have a block each to send it to
  if (const int to = thread % 4; to < parts) {
    float* const l = &shared.logsumexp[item.part][row];
    send(l, shared.parts_full, to, logsumexp.of[0]);
    send(l + 8, shared.parts_full, to, logsumexp.of[1]);
  }
  shared.parts_full.wait_for_cluster(before & 1);

  const auto exponent = [&](int part, int h) {  // of 2
    return shared.logsumexp[part][row + 8 * h] * log2e;
  };
  RowPair<float> total;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float highest = -INFINITY;
    float sum = 0;
#pragma unroll 1
    for (int part = 0; part < parts; ++part) highest = fmaxf(highest, exponent(part, h));
#pragma unroll 1
    for (int part = 0; part < parts; ++part) sum += fast_exp2(exponent(part, h) - highest);
    total.of[h] = highest + log2f(sum);
    logsumexp.of[h] = total.of[h] * ln2;
  }
  T* const to = p.o.head<T>(item.batch, item.head) + (item.first_query + row) * p.o.row_stride +
                2 * (thread % 4);
#pragma unroll 1
  for (int first = 0; first + item.part < Tile::groups; first += parts) {
    float4 sum = {0, 0, 0, 0};
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      const float4 x = shared.o[first + part][consumer];
      const float upper = fast_exp2(exponent(part, 0) - total.of[0]);
      const float lower = fast_exp2(exponent(part, 1) - total.of[1]);
      sum.x += upper * x.x;
      sum.y += upper * x.y;
      sum.z += lower * x.z;
      sum.w += lower * x.w;
    }
    const auto store = [&](int h, float x, float y) {
      if (item.first_query + row + 8 * h >= p.context) return;
      T* const place = to + 8 * h * p.o.row_stride + 8 * (first + item.part);
      *reinterpret_cast<std::uint32_t*>(place) = packed<T>(x, y);
    };
    store(0, sum.x, sum.y);
    store(1, sum.z, sum.w);
  }
}

}  // namespace paceline
