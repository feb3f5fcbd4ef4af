// The forward pass for float32 on tensor cores.

#include "cuda/attention/ampere/sm80_forward.cuh"
#include "cuda/attention/ampere/sm80_operands.cuh"
#include "cuda/attention/head_dim.h"

namespace paceline {

namespace {

template <class Arithmetic>
void forward(const FlashForward& call) {
  const auto [q, k, v] = convert_operands<Arithmetic, 3>(
      {call.q, call.k, call.v}, static_cast<char*>(call.workspace), call.shape, call.stream);
  const ForwardArguments<Arithmetic> args{.q = q,
                                          .k = k,
                                          .v = v,
                                          .o = strided<float>(call.o),
                                          .logsumexp = call.logsumexp,
                                          .context = static_cast<int>(call.shape.context),
                                          .factor = call.scale * log2e,
                                          .causal = call.shape.causal};
  dispatch_head_dim(call.shape.head_dim, [&]<int head_dim>() {
    launch_sm80_forward<Arithmetic, head_dim>(args, call.shape, call.stream);
  });
}

}  // namespace

FlashForward with_split_operands(const FlashForward& call) {
  const auto operands = convert_operands<Bf16x3, 3>(
      {call.q, call.k, call.v}, static_cast<char*>(call.workspace), call.shape, call.stream);
  const auto heads = [](const StridedHeads<const __nv_bfloat16>& x) -> FlashHeads {
    return {const_cast<__nv_bfloat16*>(x.data), x.batch_stride, x.row_stride, x.head_stride};
  };
  FlashForward parts = call;
  parts.shape.dtype = Dtype::bf16;
  parts.shape.head_dim *= Bf16x3::parts;
  parts.q = heads(operands[0]);
  parts.k = heads(operands[1]);
  parts.v = heads(operands[2]);
  return parts;
}

void sm80_forward_fp32(const FlashForward& call) {
  switch (call.shape.fp32) {
    case Fp32Attention::bf16x3: return forward<Bf16x3>(call);
    case Fp32Attention::tf32: return forward<Tf32>(call);
    case Fp32Attention::exact: break;
  }
  throw_no_flash(call.shape.dtype);
}

}  // namespace paceline
