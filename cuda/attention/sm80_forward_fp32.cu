// The forward pass of float32 on tensor cores.

#include "cuda/attention/head_dim.h"
#include "cuda/attention/sm80_forward.cuh"
#include "cuda/attention/sm80_operands.cuh"

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

void sm80_forward_fp32(const FlashForward& call) {
  call.shape.fp32 == Fp32Attention::tf32 ? forward<Tf32>(call) : forward<Split>(call);
}

}  // namespace paceline
