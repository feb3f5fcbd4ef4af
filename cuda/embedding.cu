// y[r] = table[tokens[r]]; backward dtable[v] (+)= sum over r with tokens[r] = v of dy[r].
//
// Tokens cannot be refused here without waiting for the GPU. One outside of the vocabulary gives a
// row of NaN, which no loss hides, and no gradient.

#include "cuda/check.h"
#include "cuda/cuda_eager_ops.h"
#include "cuda/row_grid.cuh"
#include "cuda/rows.cuh"

namespace paceline {

namespace {

// y [R, D], tokens [R], table [V, D]; packs = D / N
template <class Y, class W, int N>
__global__ void __launch_bounds__(256)
    embedding_kernel(Y* y, const std::int32_t* tokens, const W* table, std::int64_t vocabulary,
                     int packs) {
  const int pack = pack_of_row();
  if (pack >= packs) return;
  const std::int64_t width = static_cast<std::int64_t>(packs) * N;
  const std::int32_t token = tokens[blockIdx.x];
  const bool known = token >= 0 && token < vocabulary;
  const auto x = Pack<W, N>::load(table + (known ? token : 0) * width + pack * N);
  Pack<Y, N> out;
#pragma unroll
  for (int j = 0; j < N; ++j) out.set(j, known ? x[j] : NAN);
  out.store(y + blockIdx.x * width + pack * N);
}

constexpr int threads = 256;
constexpr int chunk = 1024;  // positions that a block looks through at a time: 32 warp ballots

// Writes the positions first ... first + chunk - 1 that hold `token` to `list`, in order, and
// returns how many there are, the same on every thread.
__device__ int find(int (&list)[chunk], const std::int32_t* tokens, std::int64_t first,
                    std::int64_t positions, int token) {
  __shared__ unsigned found[chunk / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bool match[chunk / threads];
#pragma unroll
  for (int k = 0; k < chunk / threads; ++k) {
    const std::int64_t at = first + k * threads + threadIdx.x;
    match[k] = at < positions && tokens[at] == token;
  }
  __syncthreads();  // the last chunk's list has been read
#pragma unroll
  for (int k = 0; k < chunk / threads; ++k) {
    const unsigned ballot = __ballot_sync(0xffffffffU, match[k]);
    if (lane == 0) found[(k * threads + static_cast<int>(threadIdx.x)) / 32] = ballot;
  }
  __syncthreads();
  const auto count =
      static_cast<int>(__reduce_add_sync(0xffffffffU, static_cast<unsigned>(__popc(found[lane]))));
  if (count == 0) return 0;
#pragma unroll
  for (int k = 0; k < chunk / threads; ++k) {
    if (!match[k]) continue;
    const int at = k * threads + static_cast<int>(threadIdx.x);
    int before = __popc(found[at / 32] & ((1U << lane) - 1));
    for (int word = 0; word < at / 32; ++word) before += __popc(found[word]);
    list[before] = at;
  }
  __syncthreads();
  return count;
}

// dtable [V, D], dy [R, D]; packs = D / N. Block v sums token v's rows in the order of their
// positions and writes its row of dtable once: the result is the same in every run, and without
// accumulate there is no pass of zeros before it, so that atomic adds would be slower. Its price is
// that every block looks through the tokens (V R comparisons, of ids that stay in the L1 cache).
template <class G, int N>
__global__ void __launch_bounds__(threads)
    embedding_backward_kernel(float* dtable, const G* dy, const std::int32_t* tokens,
                              std::int64_t positions, int packs, bool accumulate) {
  __shared__ int list[chunk];
  const std::int64_t width = static_cast<std::int64_t>(packs) * N;
  float* row = dtable + blockIdx.x * width;
  bool add = accumulate;
  for (std::int64_t first = 0; first < positions; first += chunk) {
    const int count = find(list, tokens, first, positions, static_cast<int>(blockIdx.x));
    if (count == 0) continue;
    for (int i = static_cast<int>(threadIdx.x); i < packs; i += threads) {
      auto sum = add ? Pack<float, N>::load(row + i * N) : Pack<float, N>{};
#pragma unroll 4
      for (int m = 0; m < count; ++m) {
        const auto g = Pack<G, N>::load(dy + (first + list[m]) * width + i * N);
#pragma unroll
        for (int j = 0; j < N; ++j) sum.element[j] += g[j];
      }
      sum.store(row + i * N);
    }
    add = true;
  }
  if (add) return;
  for (int i = static_cast<int>(threadIdx.x); i < packs; i += threads) {
    Pack<float, N>{}.store(row + i * N);
  }
}

}  // namespace

void CudaEagerOps::embedding(const Tensor& y, const Tensor& tokens, const Tensor& table) {
  const std::int64_t width = table.cols();
  dispatch_cuda(y.dtype, [&]<class Y>() {
    dispatch_cuda(table.dtype, [&]<class W>() {
      dispatch_width<Y, W>(width, {y.data, table.data}, [&]<int N>() {
        const RowGrid grid = row_grid(tokens.numel(), width / N);
        embedding_kernel<Y, W, N><<<grid.blocks, grid.threads, 0, stream()>>>(
            static_cast<Y*>(y.data), tokens.as<std::int32_t>(), static_cast<const W*>(table.data),
            table.rows(), static_cast<int>(width / N));
      });
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

void CudaEagerOps::embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& tokens,
                                      bool accumulate) {
  const std::int64_t width = dtable.cols();
  dispatch_cuda(dy.dtype, [&]<class G>() {
    dispatch_width<float, G>(width, {dtable.data, dy.data}, [&]<int N>() {
      embedding_backward_kernel<G, N>
          <<<static_cast<unsigned>(dtable.rows()), threads, 0, stream()>>>(
              dtable.as<float>(), static_cast<const G*>(dy.data), tokens.as<std::int32_t>(),
              tokens.numel(), static_cast<int>(width / N), accumulate);
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace paceline
