// The forward pass of sm80_forward.cuh in exact float32: products by FMA, P through shared memory.

#include "cuda/ampere/exact.cuh"
#include "cuda/attention/ampere/sm80.h"
#include "cuda/attention/ampere/sm80_mask.cuh"
#include "cuda/attention/ampere/sm80_operands.cuh"
#include "cuda/attention/head_dim.h"
#include "cuda/attention/online_row.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

struct ExactForward {
  StridedHeads<const float> q, k, v;
  StridedHeads<float> o;
  float* logsumexp;  // [B, H, T]
  int context;
  float factor;  // scale log2(e)
  bool causal;
};

template <int d>
constexpr unsigned forward_shared_bytes = 3 * ExactTile<d>::bytes + ExactTile<exact_rows>::bytes;

// P in place of S; O and the row sums are rescaled to the new maxima.
template <int d>
__device__ inline void online_softmax(ScoreSums& s, ThreadSums<d>& o, OnlineRow (&rows)[4],
                                      float factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float tile_max = -INFINITY;
#pragma unroll
    for (int j = 0; j < ScoreSums::N; ++j) tile_max = fmaxf(tile_max, s.x[i][j]);
    tile_max = row_reduce(tile_max, [](float a, float b) { return fmaxf(a, b); });
    const float correction = rows[i].update_max(tile_max, factor);
#pragma unroll
    for (int j = 0; j < ThreadSums<d>::N; ++j) o.x[i][j] *= correction;
#pragma unroll
    for (int j = 0; j < ScoreSums::N; ++j) {
      s.x[i][j] = rows[i].exponential(s.x[i][j], factor);
      rows[i].sum += s.x[i][j];
    }
  }
}

template <int d>
__global__ void __launch_bounds__(exact_threads, 1) exact_forward_kernel(const ExactForward args) {
  wait_for_stream();
  const SharedAddress memory = shared_memory();
  const ExactTile<d> q(memory);
  const ExactTile<d> k(memory + ExactTile<d>::bytes);
  const ExactTile<d> v(memory + 2 * ExactTile<d>::bytes);
  const ExactTile<exact_rows> p(memory + 3 * ExactTile<d>::bytes);
  const int head = static_cast<int>(blockIdx.y);
  const int batch = static_cast<int>(blockIdx.z);
  const int context = args.context;
  const auto keys = args.k.head(batch, head, context);
  const auto values = args.v.head(batch, head, context);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * exact_rows;
  const int seen = keys_seen(first_query + exact_rows - 1, context, args.causal);
  q.template start_copy<exact_threads>(args.q.head(batch, head, context), first_query);
  k.template start_copy<exact_threads>(keys, 0);
  commit_copies();

  ThreadSums<d> o;
  o.clear();
  OnlineRow rows[4];
  for (int first_key = 0; first_key < seen; first_key += exact_rows) {
    wait_for_copies<0>();
    __syncthreads();  // K has arrived; the last V and P have been read
    v.template start_copy<exact_threads>(values, first_key);
    commit_copies();
    ScoreSums s;
    s.clear();
    add_row_products(s, q, k);
    if (any_masked(first_query, first_key + exact_rows, context, args.causal)) {
      mask_scores(s, first_query, first_key, context, args.causal);
    }
    online_softmax(s, o, rows, args.factor);
    s.put(p);
    wait_for_copies<0>();
    __syncthreads();  // V has arrived, P has been written, K has been read
    if (first_key + exact_rows < seen) {
      k.template start_copy<exact_threads>(keys, first_key + exact_rows);
    }
    commit_copies();
    add_products(o, p, v);
  }

  const std::int64_t row = (static_cast<std::int64_t>(batch) * gridDim.y + head) * context;
  float inverse[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float l = row_reduce(rows[i].sum, [](float a, float b) { return a + b; });
    inverse[i] = 1.0F / l;
    const int query = first_query + o.row(i);
    if (threadIdx.x % 16 == 0 && query < context) {
      args.logsumexp[row + query] = rows[i].logsumexp(l);
    }
  }
  o.store(args.o.head(batch, head, context), first_query, inverse);
}

}  // namespace

void exact_forward(const FlashForward& call) {
  const ExactForward args{.q = strided<const float>(call.q),
                          .k = strided<const float>(call.k),
                          .v = strided<const float>(call.v),
                          .o = strided<float>(call.o),
                          .logsumexp = call.logsumexp,
                          .context = static_cast<int>(call.shape.context),
                          .factor = call.scale * log2e,
                          .causal = call.shape.causal};
  dispatch_head_dim(call.shape.head_dim, [&]<int d>() {
    launch({tile_grid(call.shape, exact_rows), exact_threads, call.stream, forward_shared_bytes<d>},
           exact_forward_kernel<d>, args);
  });
}

}  // namespace paceline
