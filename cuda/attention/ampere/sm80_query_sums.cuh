#pragma once
// dQ = scale times its sums, rounded to the inputs' dtype. sm80_backward_kernel leaves the sums in
// the order of its registers.

#include "cuda/attention/ampere/sm80_backward.cuh"

namespace paceline {

// sums [B, H, padded, d]
template <class Arithmetic, int head_dim>
__global__ void __launch_bounds__(BackwardShape<Arithmetic, head_dim>::threads)
    sm80_query_sums_kernel(const StridedHeads<typename Arithmetic::Stored::Element> dq,
                           const float* sums, int padded, int context, float scale) {
  wait_for_stream();
  using Shape = BackwardShape<Arithmetic, head_dim>;
  constexpr WarpGrid warps = Shape::tiles.query_gradient;
  const int head = static_cast<int>(blockIdx.y);
  const int batch = static_cast<int>(blockIdx.z);
  const int first_query = static_cast<int>(blockIdx.x) * Shape::tiles.queries;
  const std::int64_t first_row =
      (static_cast<std::int64_t>(batch) * gridDim.y + head) * padded + first_query;
  typename Shape::QueryGradient x;
  for_each_fragment(x, [&](float(&part)[4], int at) {
    const float4 sum = *reinterpret_cast<const float4*>(sums + first_row * head_dim + at);
    part[0] = sum.x * scale;
    part[1] = sum.y * scale;
    part[2] = sum.z * scale;
    part[3] = sum.w * scale;
  });
  const SharedTile<typename Arithmetic::Stored, Shape::tiles.queries, head_dim> out(
      shared_memory());
  out.put(x, warp_id() / warps.columns * (Shape::tiles.queries / warps.rows),
          warp_id() % warps.columns * (head_dim / warps.columns));
  __syncthreads();
  out.template store<Shape::threads>(dq.head(batch, head, context), first_query);
}

template <class Arithmetic, int head_dim>
void launch_sm80_query_sums(const StridedHeads<typename Arithmetic::Stored::Element>& dq,
                            const BackwardArguments<Arithmetic>& args, const FlashShape& shape,
                            cudaStream_t stream) {
  using Shape = BackwardShape<Arithmetic, head_dim>;
  launch({tile_grid(shape, Shape::tiles.queries), Shape::threads, stream, Shape::QueryTile::bytes},
         sm80_query_sums_kernel<Arithmetic, head_dim>, dq, args.dq_sums, args.rows.padded,
         args.context, args.scale);
}

}  // namespace paceline
