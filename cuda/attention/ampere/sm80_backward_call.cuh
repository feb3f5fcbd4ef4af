#pragma once
// The three kernels of the backward pass: L and D; dK, dV and the sums of dQ; dQ.

#include "cuda/attention/ampere/sm80_backward.cuh"
#include "cuda/attention/ampere/sm80_operands.cuh"
#include "cuda/attention/ampere/sm80_prepare_rows.cuh"
#include "cuda/attention/ampere/sm80_query_gradient.cuh"
#include "cuda/attention/ampere/sm80_query_sums.cuh"
#include "cuda/attention/head_dim.h"

namespace paceline {

template <class Arithmetic>
using Operand = StridedHeads<const typename Arithmetic::Element>;

template <class Arithmetic>
void sm80_backward(const FlashBackward& call, const Operand<Arithmetic>& q,
                   const Operand<Arithmetic>& k, const Operand<Arithmetic>& v,
                   const Operand<Arithmetic>& d_o) {
  using Result = typename Arithmetic::Stored::Element;  // the call's dtype
  const QueryRows rows = query_rows(call);
  const std::int64_t sums_at = sm80_workspace(call.shape, FlashPass::backward).dq_sums;
  float* const dq_sums =
      call.shape.deterministic
          ? nullptr
          : reinterpret_cast<float*>(static_cast<char*>(call.workspace) + sums_at);
  launch_sm80_prepare_rows(rows, dq_sums, strided<const Result>(call.o),
                           strided<const Result>(call.d_o), call.logsumexp, call.shape,
                           call.stream);
  const BackwardArguments<Arithmetic> args{.q = q,
                                           .k = k,
                                           .v = v,
                                           .d_o = d_o,
                                           .dk = strided<Result>(call.dk),
                                           .dv = strided<Result>(call.dv),
                                           .rows = rows,
                                           .dq_sums = dq_sums,
                                           .context = static_cast<int>(call.shape.context),
                                           .scale = call.scale,
                                           .causal = call.shape.causal};
  const auto dq = strided<Result>(call.dq);
  dispatch_head_dim(call.shape.head_dim, [&]<int head_dim>() {
    launch_sm80_backward<Arithmetic, head_dim>(args, call.shape, call.stream);
    if (call.shape.deterministic) {
      launch_sm80_query_gradient<Arithmetic, head_dim>(dq, args, call.shape, call.stream);
    } else {
      launch_sm80_query_sums<Arithmetic, head_dim>(dq, args, call.shape, call.stream);
    }
  });
}

// T: bfloat16 or float16.
template <class T>
void sm80_backward_half(const FlashBackward& call) {
  sm80_backward<Half<T>>(call, strided<const T>(call.q), strided<const T>(call.k),
                         strided<const T>(call.v), strided<const T>(call.d_o));
}

// For float32; converts the operands first. Arithmetic: Bf16x3 or Tf32.
template <class Arithmetic>
void sm80_backward_fp32(const FlashBackward& call) {
  const auto [q, k, v, d_o] =
      convert_operands<Arithmetic, 4>({call.q, call.k, call.v, call.d_o},
                                      static_cast<char*>(call.workspace), call.shape, call.stream);
  sm80_backward<Arithmetic>(call, q, k, v, d_o);
}

}  // namespace paceline
