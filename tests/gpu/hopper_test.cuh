#pragma once
// Shared by the tests of cuda/hopper: operands with distinct elements, memory on the GPU, and a
// launch that synchronises.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "core/non_copyable.h"
#include "cuda/cuda_backend.h"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/runtime/check.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

class Hopper : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_uuid(0).empty() || compute_capability() != 90) {
      GTEST_SKIP() << "no Hopper GPU here";
    }
  }
};

template <class T>
class DeviceArray : NonCopyable {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    CUDA_CHECK(cudaMalloc(&data_, size_ * sizeof(T)));
    CUDA_CHECK(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }

  [[nodiscard]] T* get() const { return data_; }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(size_);
    CUDA_CHECK(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};

// Launches the kernel with `shared_bytes` of dynamic shared memory and waits for it.
template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), dim3 blocks, int threads, std::size_t shared_bytes,
         const Arguments&... arguments) {
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)));
  kernel<<<blocks, threads, shared_bytes>>>(arguments...);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
}

// The block's dynamic shared memory.
template <class Shared>
__device__ Shared& shared_as() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return *reinterpret_cast<Shared*>(memory);
}

// A positive, normal 16-bit number that is different for each index below 30000.
template <class T>
T coded(int index) {
  constexpr int least = std::is_same_v<T, __nv_bfloat16> ? 0x0080 : 0x0400;
  return std::bit_cast<T>(static_cast<std::uint16_t>(least + index));
}

// The bits of each value, so that NaN and the sign of zero compare as well.
template <class T>
std::vector<std::uint32_t> bits_of(const std::vector<T>& values) {
  std::vector<std::uint32_t> bits(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&bits[i], &values[i], sizeof(T));
  return bits;
}

// Expects equal elements, bit for bit. The message has the index of the first difference in rows of
// `cols`.
template <class T>
void expect_same(const std::vector<T>& got, const std::vector<T>& want, int cols,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const std::vector<std::uint32_t> is = bits_of(got);
  const std::vector<std::uint32_t> should = bits_of(want);
  const auto first = std::mismatch(is.begin(), is.end(), should.begin()).first - is.begin();
  if (first == static_cast<std::ptrdiff_t>(is.size())) return;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < is.size(); ++i) wrong += is[i] != should[i] ? 1 : 0;
  const auto i = static_cast<std::size_t>(first);
  ADD_FAILURE() << what << ": " << wrong << " of " << is.size() << " differ, the first at ["
                << first / cols << ", " << first % cols << "]: " << static_cast<float>(got[i])
                << " for " << static_cast<float>(want[i]);
}

}  // namespace paceline
