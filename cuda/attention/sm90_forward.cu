// Hopper's forward pass for 16-bit inputs.

#include <array>

#include "cuda/attention/head_dim.h"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_forward_kernel.cuh"

namespace paceline {

// Every kernel's blocks take a multiprocessor each: this one's stand for all.
int sm90_forward_clusters(int log2_parts) {
  using Largest = ForwardTile<__nv_bfloat16, 128, 2, forward_keys>;
  static const auto most = [] {
    std::array<int, most_log2_parts + 1> clusters{};
    for (std::size_t i = 1; i < clusters.size(); ++i) {
      const unsigned blocks = 1U << i;
      clusters.at(i) = resident_clusters({.blocks = blocks,
                                          .threads = Largest::threads,
                                          .shared_bytes = sizeof(ForwardShared<Largest>),
                                          .cluster = blocks},
                                         sm90_forward_kernel<Largest>);
    }
    return clusters;
  }();
  return most.at(static_cast<std::size_t>(log2_parts));
}

void sm90_forward(const FlashForward& call) {
  const ForwardPlan plan(call.shape);
  dispatch_half(call.shape.dtype, [&]<class T>() {
    dispatch_head_dim(call.shape.head_dim, [&]<int d>() {
      const auto start = [&]<int Warpgroups, int Keys = forward_keys>() {
        start_forward<ForwardTile<T, d, Warpgroups, Keys>>(call, plan);
      };
      if constexpr (most_warpgroups(d) == 4) {
        if (plan.warpgroups == 4) return start.template operator()<4, least_forward_keys>();
        if (plan.warpgroups == 3) return start.template operator()<3>();
      }
      if constexpr (d == 128) {
        if (plan.keys == most_forward_keys) {
          return plan.warpgroups == 1 ? start.template operator()<1, most_forward_keys>()
                                      : start.template operator()<2, most_forward_keys>();
        }
      }
      plan.warpgroups == 1 ? start.template operator()<1>() : start.template operator()<2>();
    });
  });
}

}  // namespace paceline
