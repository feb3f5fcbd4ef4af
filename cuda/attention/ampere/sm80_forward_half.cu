// The forward pass for bfloat16 and float16.

#include "cuda/attention/ampere/sm80_forward.cuh"
#include "cuda/attention/ampere/sm80_operands.cuh"
#include "cuda/attention/head_dim.h"

namespace paceline {

namespace {

template <class T>
void forward(const FlashForward& call) {
  const ForwardArguments<Half<T>> args{.q = strided<const T>(call.q),
                                       .k = strided<const T>(call.k),
                                       .v = strided<const T>(call.v),
                                       .o = strided<T>(call.o),
                                       .logsumexp = call.logsumexp,
                                       .context = static_cast<int>(call.shape.context),
                                       .factor = call.scale * log2e,
                                       .causal = call.shape.causal};
  dispatch_head_dim(call.shape.head_dim, [&]<int head_dim>() {
    launch_sm80_forward<Half<T>, head_dim>(args, call.shape, call.stream);
  });
}

}  // namespace

void sm80_forward_half(const FlashForward& call) {
  switch (call.shape.dtype) {
    case Dtype::bf16: return forward<__nv_bfloat16>(call);
    case Dtype::f16: return forward<__half>(call);
    case Dtype::f64:
    case Dtype::f32:
    case Dtype::i32: break;
  }
  throw_no_flash(call.shape.dtype);
}

}  // namespace paceline
