#pragma once
// Converts a call's heads to the operands of the kernels. float32 is rounded to tf32, or split into
// two bfloat16, once before the products, by a pass over memory: x [B, T, H, d] -> [B, H, T, part,
// d] in the workspace, 4 bytes per element either way.

#include <array>

#include "cuda/ampere/tile.cuh"
#include "cuda/attention/ampere/sm80.h"
#include "cuda/kernels/vector.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

template <class E>
StridedHeads<E> strided(const FlashHeads& x) {
  return {static_cast<E*>(x.data), x.batch_stride, x.head_stride, 0,
          static_cast<int>(x.row_stride)};
}

// One block for each tile of `rows` rows of each head.
inline dim3 tile_grid(const FlashShape& s, int rows) {
  return {static_cast<unsigned>((s.context + rows - 1) / rows), static_cast<unsigned>(s.heads),
          static_cast<unsigned>(s.batch)};
}

inline constexpr int max_operands = 4;

template <class Arithmetic>
struct OperandConversion {
  std::array<StridedHeads<const float>, max_operands> from;
  std::array<StridedHeads<typename Arithmetic::Element>, max_operands> to;
};

inline constexpr int convert_threads = 256;

// A thread converts four neighbouring elements.
template <class Arithmetic>
__global__ void __launch_bounds__(convert_threads)
    sm80_convert_kernel(const OperandConversion<Arithmetic> operands, int heads, int context,
                        int head_dim) {
  wait_for_stream();
  using Element = typename Arithmetic::Element;
  using Pair = typename Arithmetic::Pair;
  const int batch = static_cast<int>(blockIdx.y) / heads;
  const int head = static_cast<int>(blockIdx.y) % heads;
  const int of_row = head_dim / 4;
  const auto i = static_cast<int>(blockIdx.x * convert_threads + threadIdx.x);
  if (i >= context * of_row) return;
  const int column = i % of_row * 4;
  const HeadRows<const float> from = operands.from[blockIdx.z].head(batch, head, context);
  const HeadRows<Element> to = operands.to[blockIdx.z].head(batch, head, context);
  const auto x = Pack<float, 4>::load(from.row(0, i / of_row) + column);
  Pair left[Arithmetic::parts];
  Pair right[Arithmetic::parts];
  Arithmetic::pack(x[0], x[1], left);
  Arithmetic::pack(x[2], x[3], right);
#pragma unroll
  for (int part = 0; part < Arithmetic::parts; ++part) {
    struct alignas(2 * sizeof(Pair)) Both {
      Pair left, right;
    };
    *reinterpret_cast<Both*>(to.row(part, i / of_row) + column) = {left[part], right[part]};
  }
}

// The number of elements of [B, H, T, d].
inline std::int64_t elements_of(const FlashShape& s) {
  return s.batch * s.heads * s.context * s.head_dim;
}

// Converts up to four operands into `memory`, which takes 4 bytes per element.
template <class Arithmetic, std::size_t n>
std::array<StridedHeads<const typename Arithmetic::Element>, n> convert_operands(
    const std::array<FlashHeads, n>& from, char* memory, const FlashShape& s, cudaStream_t stream) {
  static_assert(n <= max_operands);
  using Element = typename Arithmetic::Element;
  OperandConversion<Arithmetic> operands{};
  std::array<StridedHeads<const Element>, n> converted;
  const std::int64_t of_head = s.context * s.head_dim;
  for (std::size_t i = 0; i < n; ++i) {
    operands.from[i] = strided<const float>(from[i]);
    auto* const data = reinterpret_cast<Element*>(memory + static_cast<std::int64_t>(i) *
                                                               elements_of(s) * sizeof(float));
    constexpr int parts = Arithmetic::parts;
    const StridedHeads<Element> to{data, s.heads * of_head * parts, of_head * parts, s.head_dim,
                                   static_cast<int>(s.head_dim) * parts};
    operands.to[i] = to;
    converted[i] = {to.data, to.batch_stride, to.head_stride, to.part_stride, to.row_stride};
  }
  const std::int64_t packs = of_head / 4;
  const dim3 blocks(static_cast<unsigned>((packs + convert_threads - 1) / convert_threads),
                    static_cast<unsigned>(s.batch * s.heads), static_cast<unsigned>(n));
  launch({blocks, convert_threads, stream}, sm80_convert_kernel<Arithmetic>, operands,
         static_cast<int>(s.heads), static_cast<int>(s.context), static_cast<int>(s.head_dim));
  return converted;
}

}  // namespace paceline
