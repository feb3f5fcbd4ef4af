// y[r] = table[tokens[r]]; backward dtable[v] (+)= sum over r with tokens[r] = v of dy[r].
//
// Tokens cannot be checked here without waiting for the GPU. A token outside of the vocabulary
// gives a row of NaN, so that the loss is NaN, and no gradient.

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int kept = 4;

// y [R, D], tokens [R], table [V, D]; packs = D / N. Each team copies a row.
template <class Y, class W, int N>
__global__ void __launch_bounds__(512)
    embedding_kernel(Y* y, const std::int32_t* tokens, const W* table, std::int64_t rows,
                     std::int64_t vocabulary, int packs) {
  wait_for_stream();
  const std::int64_t row = team_row();
  if (row >= rows) return;
  const std::int64_t width = static_cast<std::int64_t>(packs) * N;
  const std::int32_t token = tokens[row];
  const bool known = token >= 0 && token < vocabulary;
  const RowPacks<W, N, kept> xs(table + (known ? token : 0) * width, packs);
  for_each_pack<kept>(packs, [&](int k, int i) {
    const Pack<W, N> x = xs.get(k, i);
    Pack<Y, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.set(j, known ? x[j] : NAN);
    out.store(y + row * width + i * N);
  });
}

constexpr int threads = 128;
constexpr int backward_kept = 5;
constexpr int tokens_each = 32;  // tokens that a thread compares at a time
constexpr int chunk = threads * tokens_each;

// The index in a chunk of this thread's t-th token. A thread has groups of four neighbouring
// tokens; neighbouring threads have neighbouring groups.
__device__ int token_of(int t) {
  return (t / 4 * threads + static_cast<int>(threadIdx.x)) * 4 + t % 4;
}

// Bit t of the result is set if this thread's t-th token in the chunk of `count` tokens is
// `wanted`.
__device__ unsigned matches(const std::int32_t* tokens, std::int64_t count, bool aligned,
                            int wanted) {
  unsigned bits = 0;
  if (aligned && (count >= chunk || count % 4 == 0)) {  // no group of four crosses the chunk's end
#pragma unroll
    for (int t = 0; t < tokens_each; t += 4) {
      int4 four{-1, -1, -1, -1};
      if (token_of(t) < count) four = *reinterpret_cast<const int4*>(tokens + token_of(t));
      bits |= static_cast<unsigned>(four.x == wanted) << t |
              static_cast<unsigned>(four.y == wanted) << (t + 1) |
              static_cast<unsigned>(four.z == wanted) << (t + 2) |
              static_cast<unsigned>(four.w == wanted) << (t + 3);
    }
  } else {
    for (int t = 0; t < tokens_each; ++t) {
      if (token_of(t) < count) bits |= static_cast<unsigned>(tokens[token_of(t)] == wanted) << t;
    }
  }
  return bits;
}

// dtable [V, D], dy [R, D]; packs = D / N. Each block computes one row of dtable: the sum over the
// positions of its token, in a fixed order, written once. The result is deterministic, and without
// `accumulate` dtable need not be zeroed first, which makes it faster than atomic adds. The price:
// every block searches all tokens (V R comparisons, of ids in the L1 cache).
template <class G, int N>
__global__ void __launch_bounds__(threads)
    embedding_backward_kernel(float* dtable, const G* dy, const std::int32_t* tokens,
                              std::int64_t positions, bool aligned, int packs, bool accumulate) {
  wait_for_stream();
  __shared__ int count;
  __shared__ int list[chunk];  // positions of the token in the chunk
  const std::int64_t width = static_cast<std::int64_t>(packs) * N;
  ColumnSums<N, backward_kept> sums(dtable + blockIdx.x * width, packs, accumulate);
  for (std::int64_t first = 0; first < positions; first += chunk) {
    const unsigned mine =
        matches(tokens + first, positions - first, aligned, static_cast<int>(blockIdx.x));
    if (__syncthreads_or(static_cast<int>(mine)) == 0) continue;
    int at = block_sum_before<threads>(__popc(mine));
    for (unsigned bits = mine; bits != 0; bits &= bits - 1) {
      list[at++] = token_of(__ffs(static_cast<int>(bits)) - 1);
    }
    if (threadIdx.x == threads - 1) count = at;
    __syncthreads();
    for (int m = 0; m < count; ++m) {
      const G* row = dy + (first + list[m]) * width;
      for_each_pack<backward_kept>(
          packs, [&](int k, int i) { sums.add(k, i, widened(Pack<G, N>::load(row + i * N))); });
    }
    __syncthreads();
  }
  sums.finish();
}

}  // namespace

void CudaEagerOps::embedding(const Tensor& y, const Tensor& tokens, const Tensor& table) {
  const std::int64_t width = table.cols();
  dispatch_cuda(y.dtype, [&]<class Y>() {
    dispatch_cuda(table.dtype, [&]<class W>() {
      dispatch_width<Y, W>(width, {y.data, table.data}, [&]<int N>() {
        const Teams teams = teams_for(tokens.numel(), width / N, kept, 512);
        launch({teams.grid, teams.block, stream()}, embedding_kernel<Y, W, N>,
               static_cast<Y*>(y.data), tokens.as<std::int32_t>(),
               static_cast<const W*>(table.data), tokens.numel(), table.rows(),
               static_cast<int>(width / N));
      });
    });
  });
}

void CudaEagerOps::embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& tokens,
                                      bool accumulate) {
  const std::int64_t width = dtable.cols();
  dispatch_cuda(dy.dtype, [&]<class G>() {
    dispatch_width<float, G>(width, {dtable.data, dy.data}, [&]<int N>() {
      launch({static_cast<unsigned>(dtable.rows()), threads, stream()},
             embedding_backward_kernel<G, N>, dtable.as<float>(), static_cast<const G*>(dy.data),
             tokens.as<std::int32_t>(), tokens.numel(), is_aligned(tokens.data, 16),
             static_cast<int>(width / N), accumulate);
    });
  });
}

}  // namespace paceline
