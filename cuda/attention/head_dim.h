#pragma once
// The head dimensions that flash kernels are compiled for.

#include <array>
#include <cstdint>

#include "core/error.h"

namespace paceline {

inline constexpr std::array<std::int64_t, 5> head_dims = {16, 32, 64, 80, 128};

// Returns f.template operator()<HeadDim>(). Throws InternalError for another head dimension.
template <class F>
decltype(auto) dispatch_head_dim(std::int64_t head_dim, F&& f) {
  switch (head_dim) {
    case 16: return f.template operator()<16>();
    case 32: return f.template operator()<32>();
    case 64: return f.template operator()<64>();
    case 80: return f.template operator()<80>();
    case 128: return f.template operator()<128>();
    default: throw InternalError("no flash kernel for this head dimension");
  }
}

}  // namespace paceline
