#include "cuda/hopper/tensor_map.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "cuda/check.h"

namespace paceline::hopper {

namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's library is not linked: without a GPU there is none.
Encode encode() {
  static const auto function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess) {
      throw EnvironmentError("the CUDA driver has no tensor maps; it must be of CUDA 12 or later");
    }
    return reinterpret_cast<Encode>(found);
  }();
  return function;
}

}  // namespace

CUtensorMap tensor_map(const FlashHeads& x, const FlashShape& shape, int rows, int cols) {
  constexpr std::uint64_t element = 2;
  const int panel = std::min(cols, 64);
  const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const std::array<std::uint64_t, 4> extents = {size(shape.head_dim), size(shape.context),
                                                size(shape.heads), size(shape.batch)};
  const std::array<std::uint64_t, 3> strides = {
      size(x.row_stride) * element, size(x.head_stride) * element, size(x.batch_stride) * element};
  const std::array<std::uint32_t, 4> box = {static_cast<std::uint32_t>(panel),
                                            static_cast<std::uint32_t>(rows), 1, 1};
  const std::array<std::uint32_t, 4> steps = {1, 1, 1, 1};
  const CUtensorMapSwizzle swizzle = panel == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : panel == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                   : CU_TENSOR_MAP_SWIZZLE_32B;
  CUtensorMap map{};
  const CUresult result =
      encode()(&map,
               shape.dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                          : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
               4, x.data, extents.data(), strides.data(), box.data(), steps.data(),
               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw EnvironmentError(
        "flash attention wants rows of heads at multiples of 16 bytes; use a head dimension that "
        "is a multiple of 8");
  }
  return map;
}

}  // namespace paceline::hopper
