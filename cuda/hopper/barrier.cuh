#pragma once
// Synchronisation of the warps of a block with each other and with TMA: mbarriers in shared memory,
// the named barriers of the hardware, and the fences between the generic and the async proxy.

#include <cstdint>

namespace paceline::hopper {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// An mbarrier. It counts arrivals and the bytes that copies deliver. When all have come, its phase
// completes and the next one begins. `phase` is the parity of a phase; the first phase has parity
// 0.
class Barrier {
 public:
  // Called by one thread, which may use the barrier after barriers_are_ready(). The other threads
  // may use it after a later __syncthreads().
  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals));
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // Arrives, and makes the phase wait for `bytes` more bytes from copies.
  __device__ void arrive_and_expect(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  // Arrives at the same barrier of another block of the cluster, by its rank. It has no release
  // semantics: it says that this thread has finished reading, but publishes no writes.
  __device__ void arrive_at(int cluster_rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}\n" ::"r"(shared_address(this)),
        "r"(cluster_rank)
        : "memory");
  }
  // Waits until the phase of this parity has completed. The phase before the first one counts as
  // completed.
  __device__ void wait(int phase) {
    asm volatile(
        "{\n"
        ".reg .pred completed;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 completed, [%0], %1;\n"
        "@!completed bra again;\n"
        "}\n" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }
  // The same, and acquires what other blocks of the cluster have sent.
  __device__ void wait_for_cluster(int phase) {
    asm volatile(
        "{\n"
        ".reg .pred completed;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 completed, [%0], %1;\n"
        "@!completed bra again;\n"
        "}\n" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }

 private:
  std::uint64_t state_;
};

// Makes init()'s writes visible to TMA and to the cluster.
__device__ inline void barriers_are_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Makes this thread's writes to shared memory visible to the tensor cores and to TMA after the next
// barrier.
__device__ inline void publish_to_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Named barriers 1 to 15 (0 is that of __syncthreads()). threads: how many take part, a multiple of
// 32.
__device__ inline void named_barrier_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
// Arrives without waiting.
__device__ inline void named_barrier_arrive(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
// Waits, and returns whether x holds for all of the threads. The vote tells the compiler that the
// result is uniform in a warp.
__device__ inline bool named_barrier_all(int name, int threads, bool x) {
  int all = 0;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.s32 p, %1, 0;\n"
      "bar.red.and.pred p, %2, %3, p;\n"
      "selp.s32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(all)
      : "r"(static_cast<int>(x)), "r"(name), "r"(threads)
      : "memory");
  return __any_sync(0xffffffffU, all) != 0;
}

// The position in a ring of buffers, each with a full and an empty Barrier, as CUTLASS's
// PipelineState. The consumer waits for full[stage] with `phase`. The producer waits for
// empty[stage] with phase ^ 1, so that it does not wait the first time around the ring.
template <int Stages>
struct PipelineState {
  int stage = 0;
  int phase = 0;

  __device__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace paceline::hopper
