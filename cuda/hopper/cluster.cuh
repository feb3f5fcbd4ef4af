#pragma once
// Distributed shared memory: the blocks of a cluster run at the same time and can write to the
// shared memory of one another.

#include "cuda/hopper/barrier.cuh"

namespace paceline::hopper {

// Called once by every thread of the cluster, after barriers_are_ready(). After the wait the
// barriers of other blocks may be used.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address that corresponds to `local` in another block of the cluster, and the barrier of that
// block which counts the bytes sent to it. cluster_rank: of that block.
struct RemoteAddress {
  std::uint32_t data;
  std::uint32_t full;

  RemoteAddress() = default;
  __device__ RemoteAddress(const void* local, const Barrier& barrier, int cluster_rank)
      : data(in_block(local, cluster_rank)), full(in_block(&barrier, cluster_rank)) {}

 private:
  static __device__ std::uint32_t in_block(const void* local, int cluster_rank) {
    std::uint32_t remote = 0;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(remote)
        : "r"(shared_address(local)), "r"(cluster_rank));
    return remote;
  }
};

// Writes x `offset` bytes after the address (st.async). The remote barrier counts the bytes as it
// does those of copies; they are visible after its wait_for_cluster(). No fence is needed, which
// would take longer than everything else.
__device__ inline void send(const RemoteAddress& to, int offset, float x) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                   to.data + offset),
               "f"(x), "r"(to.full)
               : "memory");
}
__device__ inline void send(const RemoteAddress& to, int offset, const float4& x) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to.data + offset),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(to.full)
      : "memory");
}

}  // namespace paceline::hopper
