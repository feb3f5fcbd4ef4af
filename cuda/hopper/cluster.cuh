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

// Where a block of the cluster, by its rank, has what this block has at `here`, and the barrier of
// that block that counts what is sent there.
struct RemoteAddress {
  std::uint32_t data;
  std::uint32_t full;

  RemoteAddress() = default;
  __device__ RemoteAddress(const void* local, const Barrier& barrier, int rank)
      : data(in_block(local, rank)), full(in_block(&barrier, rank)) {}

 private:
  static __device__ std::uint32_t in_block(const void* local, int rank) {
    std::uint32_t remote = 0;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(remote)
        : "r"(shared_address(local)), "r"(rank));
    return remote;
  }
};

// So many bytes behind the place; the bytes count as those of copies do, and are seen after its
// barrier's wait_for_cluster(). No fence is needed, which would take longer than the rest.
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
