#pragma once
// Hopper's forward pass for 16-bit inputs. bfloat16 and float16 are instantiated in separate files,
// which halves the time to compile one.

#include "cuda/attention/head_dim.h"
#include "cuda/attention/hopper/sm90_forward_kernel.cuh"

namespace paceline {

// T: bfloat16 or float16.
template <class T>
void start_forward_half(const FlashForward& call) {
  const ForwardPlan plan(call.shape);
  dispatch_head_dim(call.shape.head_dim, [&]<int d>() {
    const auto start = [&]<int Warpgroups>() {
      start_forward<ForwardTile<T, d, Warpgroups>>(call, plan);
    };
    if constexpr (max_warpgroups(d) >= 4) {
      if (plan.warpgroups == 4) return start.template operator()<4>();
    }
    if constexpr (max_warpgroups(d) >= 3) {
      if (plan.warpgroups == 3) return start.template operator()<3>();
    }
    plan.warpgroups == 1 ? start.template operator()<1>() : start.template operator()<2>();
  });
}

}  // namespace paceline
