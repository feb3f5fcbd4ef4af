// The backward pass of float32 on tensor cores.

#include "cuda/attention/sm80_backward_call.cuh"

namespace paceline {

namespace {

template <class Arithmetic>
void backward(const FlashBackward& call) {
  const auto [q, k, v, d_o] =
      convert_operands<Arithmetic, 4>({call.q, call.k, call.v, call.d_o},
                                      static_cast<char*>(call.workspace), call.shape, call.stream);
  sm80_backward<Arithmetic>(call, q, k, v, d_o);
}

}  // namespace

void sm80_backward_fp32(const FlashBackward& call) {
  call.shape.fp32 == Fp32Attention::tf32 ? backward<Tf32>(call) : backward<Split>(call);
}

}  // namespace paceline
