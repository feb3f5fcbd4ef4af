#pragma once
// Wrappers of the sm_80 instructions that copy and multiply tiles. fragment.cuh gives the layouts
// of matrices in registers.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <concepts>
#include <cstdint>

namespace paceline {

// The lane, read from its register each time. The compiler then keeps nothing computed from it
// across loop iterations, which saves registers.
__device__ inline unsigned read_lane_id() {
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// An address in shared memory: half as many registers as a pointer.
using SharedAddress = std::uint32_t;

// The block's dynamic shared memory (Grid::shared_bytes).
__device__ inline SharedAddress shared_memory() {
  extern __shared__ __align__(128) char memory[];
  return static_cast<SharedAddress>(__cvta_generic_to_shared(memory));
}

__device__ inline void store_shared(SharedAddress to, std::uint32_t x) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}
__device__ inline void store_shared(SharedAddress to, float2 x) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x.x), "f"(x.y) : "memory");
}
__device__ inline void load_shared(std::uint32_t& x, SharedAddress from) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
}
__device__ inline void store_shared(SharedAddress to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}
__device__ inline void load_shared(float& x, SharedAddress from) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
}
__device__ inline void load_shared(float2& x, SharedAddress from) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from) : "memory");
}
__device__ inline void load_shared(float4& x, SharedAddress from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(from)
               : "memory");
}

// One, two or four contiguous floats.
template <int n>
__device__ inline void load_shared(float (&x)[n], SharedAddress from) {
  static_assert(n == 1 || n == 2 || n == 4);
  if constexpr (n == 1) {
    load_shared(x[0], from);
  } else if constexpr (n == 2) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(x[0]), "=f"(x[1])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(from)
                 : "memory");
  }
}

// Starts to copy 16 bytes from global to shared memory. If they are not present, writes zeros and
// does not read `from`.
__device__ inline void copy_async(SharedAddress to, const void* from, bool present = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}

// Closes a group of the copies that this thread has started since the last call.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all groups of this thread but the last `Pending` have arrived.
template <int Pending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// ldmatrix: loads two or four matrices of 8 rows of 16 bytes. Lane i passes the address of row i %
// 8 of matrix i / 8, and receives the i-th 32-bit word of each matrix, counted row by row.
__device__ inline void load_matrices(std::uint32_t (&x)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrices(std::uint32_t (&x)[2], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(x[0]), "=r"(x[1])
               : "r"(row)
               : "memory");
}

// The same for 16-bit elements, with each matrix transposed.
__device__ inline void load_matrices_transposed(std::uint32_t (&x)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrices_transposed(std::uint32_t (&x)[2], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(x[0]), "=r"(x[1])
               : "r"(row)
               : "memory");
}

// c += a b.  [16, 8], [16, 16], [16, 8]; b: two registers
template <class T>
__device__ inline void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t* b) {
  if constexpr (std::same_as<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// The same for tf32.  [16, 8], [16, 8], [8, 8]
__device__ inline void mma_m16n8k8_tf32(float (&c)[4], const std::uint32_t (&a)[4],
                                        const std::uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Rounds to 10 mantissa bits, to nearest, ties away from zero.
__device__ inline std::uint32_t rounded_to_tf32(float x) {
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// sum += x, atomically for each element. `sum` is 16-byte aligned.
__device__ inline void add_atomically(float* sum, const float (&x)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(sum)),
               "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) atomicAdd(sum + i, x[i]);
#endif
}

}  // namespace paceline
