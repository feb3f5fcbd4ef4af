// The backward pass of bfloat16 and float16.

#include "cuda/attention/sm80_backward_call.cuh"

namespace paceline {

namespace {

template <class T>
void backward(const FlashBackward& call) {
  sm80_backward<Half<T>>(call, strided<const T>(call.q), strided<const T>(call.k),
                         strided<const T>(call.v), strided<const T>(call.d_o));
}

}  // namespace

void sm80_backward_half(const FlashBackward& call) {
  call.shape.dtype == Dtype::f16 ? backward<__half>(call) : backward<__nv_bfloat16>(call);
}

}  // namespace paceline
