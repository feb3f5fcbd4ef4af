#pragma once
// The blocks of a cluster run at the same time, close to each other, and write into each other's
// shared memory.

#include "cuda/hopper/barrier.cuh"

namespace paceline::hopper {

// By every thread of the cluster, once, when barriers_are_ready(): another block's barriers may be
// used after the wait.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where a block of the cluster, by its rank in the cluster, has what this block has at `here`, and
// the barrier of that block that counts what is sent there.
struct ClusterPlace {
  std::uint32_t at;
  std::uint32_t full;

  ClusterPlace() = default;
  __device__ ClusterPlace(const void* here, const Barrier& barrier, int cluster_rank)
      : at(of_block(here, cluster_rank)), full(of_block(&barrier, cluster_rank)) {}

 private:
  static __device__ std::uint32_t of_block(const void* here, int cluster_rank) {
    std::uint32_t there = 0;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there)
        : "r"(shared_address(here)), "r"(cluster_rank));
    return there;
  }
};

// So many bytes behind the place; the bytes count as those of copies do, and are seen after its
// barrier's wait_for_cluster(). No fence is needed, which would take longer than the rest.
__device__ inline void send(const ClusterPlace& to, int offset, float x) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                   to.at + offset),
               "f"(x), "r"(to.full)
               : "memory");
}
__device__ inline void send(const ClusterPlace& to, int offset, const float4& x) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to.at + offset),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(to.full)
      : "memory");
}

}  // namespace paceline::hopper
