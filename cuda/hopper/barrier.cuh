#pragma once
// How the warps of a block wait for each other and for the copy engine: barriers in shared memory
// (PTX's mbarrier), the hardware's named barriers, and the fences between the two ways in which
// shared memory is reached.

#include <cstdint>

namespace paceline::hopper {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Counts arrivals, and bytes that copies are to bring; when all are there, a phase ends and the
// next begins. Phases alternate in phase, 0 first.
class Barrier {
 public:
  // By one thread. It may use the barrier after barriers_are_ready(), others after a
  // __syncthreads().
  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals));
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // Arrives; the phase ends no sooner than copies have brought so many bytes.
  __device__ void arrive_and_expect(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  // At the same barrier of a block of the cluster, by its rank in the cluster: what this thread has
  // read may be written over. Publishes nothing.
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
  // Until the phase of this phase has ended. The phase before the first counts as ended.
  __device__ void wait(int phase) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@!ended bra again;\n"
        "}\n" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }
  // Also for what other blocks of the cluster have sent.
  __device__ void wait_for_cluster(int phase) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%0], %1;\n"
        "@!ended bra again;\n"
        "}\n" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }

 private:
  std::uint64_t state_;
};

// What init() has written is seen by the copy engine.
__device__ inline void barriers_are_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// What this thread has written to shared memory is seen by the tensor cores and the copy engine
// after the next barrier.
__device__ inline void publish_to_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Named barriers: 1 to 15 (0 is __syncthreads()'s), of so many threads, multiples of 32.
__device__ inline void named_barrier_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
// Counts without waiting.
__device__ inline void named_barrier_arrive(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
// Waits, too; whether x holds for all of them. The vote tells the compiler that a warp's lanes
// agree.
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

// A place in a ring of buffers, each with a full and an empty Barrier. Who fills waits for
// empty[stage] with phase ^ 1, so that the first round does not wait; who reads, for full[stage]
// with phase.
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
