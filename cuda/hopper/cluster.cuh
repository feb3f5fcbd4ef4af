#pragma once
// The blocks of a cluster run at the same time, close to each other, and reach each other's shared
// memory.

namespace paceline::hopper {

// In another block's shared memory, by its rank in the cluster, what x is in this block's.
template <class T>
__device__ T* of_block(T* x, int rank) {
  T* there = nullptr;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(x), "r"(rank));
  return there;
}

// By every thread of the cluster: what it has written is seen by those that wait.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// Until all threads of the cluster have arrived, or ended.
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace paceline::hopper
