#pragma once
// Roles of warpgroups: four warps that wgmma takes as one, and whose share of the registers can
// change while a kernel runs.

namespace paceline::hopper {

constexpr int warpgroup_threads = 128;

// The same in all lanes of a warp, and known to be so by the compiler.
__device__ inline int warpgroup_index() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / warpgroup_threads, 0);
}
__device__ inline int warp_in_warpgroup() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32 % 4, 0);
}
__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }

// Whether a block of one producer and so many consumers, each a warpgroup, has what their threads
// take. It starts with 64 Ki registers in equal shares of a multiple of 8; who takes more than
// others have given up waits forever.
constexpr bool registers_suffice(int consumers, int of_producer, int of_consumer) {
  const int warpgroups = consumers + 1;
  const int at_start = 512 / warpgroups / 8 * 8;
  return of_producer + consumers * of_consumer <= warpgroups * at_start;
}

// By all of a warpgroup: each of its threads has so many registers from here on (a multiple of 8).
template <int Registers>
__device__ inline void deallocate_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ inline void allocate_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace paceline::hopper
