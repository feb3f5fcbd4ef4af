#include "cuda/hopper/tensor_map.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "cuda/runtime/check.h"

namespace paceline::hopper {

namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's library is not linked, because machines without a GPU do not have it.
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

CUtensorMap tensor_map(const TensorInMemory& x, int rows, int cols) {
  const int panel = std::min(cols, 64);
  std::array<std::uint64_t, 4> extents{};
  std::ranges::copy(x.sizes, extents.begin());
  std::array<std::uint64_t, 3> bytes{};
  std::ranges::transform(x.strides, bytes.begin(),
                         [](std::int64_t elements) { return 2 * elements; });
  const std::array<std::uint32_t, 4> box = {static_cast<std::uint32_t>(panel),
                                            static_cast<std::uint32_t>(rows), 1, 1};
  const std::array<std::uint32_t, 4> steps = {1, 1, 1, 1};
  const CUtensorMapSwizzle swizzle = panel == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : panel == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                   : CU_TENSOR_MAP_SWIZZLE_32B;
  CUtensorMap map{};
  const CUresult result =
      encode()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, x.data, extents.data(), bytes.data(),
               box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw EnvironmentError(
        "TMA needs tensors and their rows at multiples of 16 bytes; use a head "
        "dimension that is a multiple of 8");
  }
  return map;
}

}  // namespace paceline::hopper
