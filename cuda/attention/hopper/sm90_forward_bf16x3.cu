// Hopper's forward pass for float32 as two bfloat16 (bf16x3).

#include "cuda/attention/ampere/sm80.h"
#include "cuda/attention/head_dim.h"
#include "cuda/attention/hopper/sm90_forward_kernel.cuh"

namespace paceline {

void sm90_forward_bf16x3(const FlashForward& call) {
  const ForwardPlan plan(call.shape);
  const FlashForward split = with_split_operands(call);
  dispatch_head_dim(call.shape.head_dim, [&]<int d>() {
    plan.warpgroups == 1 ? start_forward<ForwardTile<float, d, 1>>(split, plan)
                         : start_forward<ForwardTile<float, d, max_bf16x3_warpgroups>>(split, plan);
  });
}

}  // namespace paceline
