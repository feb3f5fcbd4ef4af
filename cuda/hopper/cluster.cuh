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

// Of this block in its cluster.
__device__ inline int block_rank() {
  int rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Into the shared memory of a block of the cluster, by its rank; `to` and `full` are that block's,
// named by this block's at the same place. `full` counts the bytes as it does those of copies; they
// are seen after its wait_for_cluster(). No fence is needed, which would take longer than the rest.
__device__ inline void send(float* to, Barrier& full, int rank, float x) {
  asm volatile(
      "{\n"
      ".reg .b32 there, barrier;\n"
      "mapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 barrier, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %3, [barrier];\n"
      "}\n" ::"r"(shared_address(to)),
      "r"(shared_address(&full)), "r"(rank), "f"(x)
      : "memory");
}
__device__ inline void send(float4* to, Barrier& full, int rank, const float4& x) {
  asm volatile(
      "{\n"
      ".reg .b32 there, barrier;\n"
      "mapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 barrier, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %6}, "
      "[barrier];\n"
      "}\n" ::"r"(shared_address(to)),
      "r"(shared_address(&full)), "r"(rank), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
      : "memory");
}

}  // namespace paceline::hopper
