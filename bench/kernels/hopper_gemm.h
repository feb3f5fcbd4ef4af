#pragma once
// A matrix product that benchmarks the tile vocabulary of cuda/hopper.

#include <cuda_runtime.h>

namespace paceline {

struct HopperGemm {
  void* a = nullptr;  // [M, K], bfloat16
  void* b = nullptr;  // [N, K], bfloat16
  void* c = nullptr;  // [M, N], bfloat16, written: a b^T
  int M = 0;
  int N = 0;  // a multiple of 256
  int K = 0;  // a multiple of 64
  cudaStream_t stream = nullptr;
};

// Enqueues on the stream. Needs a Hopper GPU (sm_90a).
void hopper_gemm(const HopperGemm& call);

}  // namespace paceline
