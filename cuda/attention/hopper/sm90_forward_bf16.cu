// Hopper's forward pass for bfloat16.

#include <array>

#include "cuda/attention/hopper/sm90_forward_half.cuh"

namespace paceline {

void sm90_forward_bf16(const FlashForward& call) { start_forward_half<__nv_bfloat16>(call); }

// Every kernel has one block per multiprocessor, so the largest one answers for all.
int sm90_forward_clusters(int log2_parts) {
  using Largest = ForwardTile<__nv_bfloat16, 128, 2>;
  static const auto resident = [] {
    std::array<int, max_log2_parts + 1> clusters{};
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
  return resident.at(static_cast<std::size_t>(log2_parts));
}

}  // namespace paceline
