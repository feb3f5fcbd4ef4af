#include "cuda/attention/sm90.h"

#include <algorithm>

namespace paceline {

int heads_per_section(const FlashShape& shape, int bytes_per_position) {
  constexpr std::int64_t share_of_l2 = std::int64_t{32} << 20U;
  return static_cast<int>(std::clamp<std::int64_t>(
      share_of_l2 / (shape.context * bytes_per_position), 1, shape.batch * shape.heads));
}

}  // namespace paceline
