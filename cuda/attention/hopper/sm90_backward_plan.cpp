#include "cuda/attention/head_dim.h"
#include "cuda/attention/hopper/sm90.h"
#include "cuda/attention/hopper/sm90_backward.h"

namespace paceline {

std::size_t sm90_backward_workspace_bytes(const FlashShape& shape) {
  return dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() {
    return BackwardPlan<BackwardTile<HeadDim>>(shape).bytes();
  });
}

FlashTiles sm90_backward_tiles(const FlashShape& shape) {
  return dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() -> FlashTiles {
    using Tile = BackwardTile<HeadDim>;
    return {"sm90", Tile::queries, Tile::keys, BackwardPlan<Tile>(shape).scheduler.parts()};
  });
}

}  // namespace paceline
