#pragma once
// Warpgroups: four warps that execute wgmma together and can change their number of registers while
// a kernel runs.

namespace paceline::hopper {

constexpr int warpgroup_threads = 128;

// The shuffle tells the compiler that the index is uniform in a warp.
__device__ inline int warpgroup_index() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / warpgroup_threads, 0);
}
__device__ inline int warp_in_warpgroup() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32 % 4, 0);
}
__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }

// Whether the registers per thread suffice for a block of one producer and `consumers` consumer
// warpgroups. The block starts with 64 Ki registers in equal shares, a multiple of 8 per thread. A
// warpgroup that allocates more than the others have released waits forever.
constexpr bool registers_suffice(int consumers, int of_producer, int of_consumer) {
  const int warpgroups = consumers + 1;
  const int at_start = 512 / warpgroups / 8 * 8;
  return of_producer + consumers * of_consumer <= warpgroups * at_start;
}

// setmaxnreg: sets the registers per thread, a multiple of 8. Called by the whole warpgroup.
template <int Registers>
__device__ inline void deallocate_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ inline void allocate_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace paceline::hopper
