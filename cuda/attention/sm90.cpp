#include "cuda/attention/sm90.h"

#include <algorithm>

#include "cuda/check.h"

namespace paceline {

int heads_per_section(const FlashShape& shape, int row_bytes) {
  constexpr std::int64_t share_of_l2 = std::int64_t{32} << 20U;
  return static_cast<int>(std::clamp<std::int64_t>(share_of_l2 / (shape.context * row_bytes), 1,
                                                   shape.batch * shape.heads));
}

int multiprocessors() {
  int device = 0;
  int count = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

}  // namespace paceline
