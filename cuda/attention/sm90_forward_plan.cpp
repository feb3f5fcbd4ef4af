#include <array>

#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_forward.h"

namespace paceline {

// Times in those of a step of two warpgroups over a tile of keys; measured (NOTES.md).
ForwardPlan::ForwardPlan(const FlashShape& shape)
    : keys(forward_keys(shape.head_dim, shape.causal)),
      rows(static_cast<std::size_t>(shape.batch * shape.heads * shape.context)),
      head_dim(static_cast<std::size_t>(shape.head_dim)) {
  constexpr std::array<double, 4> step = {0, 0.65, 1, 1.45};  // by warpgroups
  constexpr double start_up = 1.5;
  constexpr double merge = 5;
  const auto context = static_cast<int>(shape.context);
  const auto heads = static_cast<int>(shape.batch * shape.heads);
  double least = 0;
  for (int w = most_warpgroups(shape.head_dim); w >= 1; --w) {
    const int tile = 64 * w;
    const double own = step.at(static_cast<std::size_t>(w));
    const TiledWork work{.tiles = heads * ((context + tile - 1) / tile),
                         .longest = (context + keys - 1) / keys,
                         .causal = shape.causal,
                         .start_up = start_up,
                         .merge = merge / own};
    const Division found = divided(work, multiprocessors());
    const double time = own * estimated(work, found.parts, multiprocessors());
    if (least == 0 || time < least) {
      least = time;
      warpgroups = w;
      division = found;
    }
  }
}

std::size_t ForwardPlan::bytes() const {
  if (division.parts == 1) return 0;
  return static_cast<std::size_t>(division.parts) * rows * (head_dim + 1) * sizeof(float);
}

ForwardSpace ForwardPlan::at(void* workspace) const {
  if (division.parts == 1) return {};
  auto* const o = static_cast<float*>(workspace);
  return {.o = o, .logsumexp = o + static_cast<std::size_t>(division.parts) * rows * head_dim};
}

std::size_t sm90_forward_workspace_bytes(const FlashShape& shape) {
  return ForwardPlan(shape).bytes();
}

TileSize sm90_forward_tile(const FlashShape& shape) {
  const ForwardPlan plan(shape);
  return {plan.queries(), plan.keys};
}

}  // namespace paceline
