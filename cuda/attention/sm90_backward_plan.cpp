#include "cuda/attention/head_dim.h"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_backward.h"

namespace paceline {

std::size_t sm90_backward_workspace_bytes(const FlashShape& shape) {
  return dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() {
    return BackwardPlan<BackwardTile<HeadDim>>(shape).bytes();
  });
}

Sm90Tiles sm90_backward_tiles(const FlashShape& shape) {
  return dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() -> Sm90Tiles {
    using Tile = BackwardTile<HeadDim>;
    return {Tile::queries, Tile::keys, BackwardPlan<Tile>(shape).order.parts(0)};
  });
}

}  // namespace paceline
