#include "cuda/attention/head_dim.h"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_backward.h"

namespace paceline {

std::size_t sm90_backward_workspace_bytes(const FlashShape& shape) {
  return dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() {
    return BackwardPlan<BackwardTile<HeadDim>>(shape).bytes();
  });
}

TileSize sm90_backward_tile(const FlashShape& shape) {
  return dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() -> TileSize {
    return {BackwardTile<HeadDim>::queries, BackwardTile<HeadDim>::keys};
  });
}

}  // namespace paceline
