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

// By all of a warpgroup: each of its threads has so many registers from here on (a multiple of 8).
template <int Registers>
__device__ inline void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace paceline::hopper
