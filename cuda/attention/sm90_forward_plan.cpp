#include <array>

#include "cuda/attention/division.h"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_forward.h"
#include "cuda/current_device.h"

namespace paceline {

namespace {

struct Candidate {
  TileOrder order;
  double time;  // in steps of two warpgroups over a tile of keys
};

// The costs are measured (NOTES.md).
Candidate candidate(const FlashShape& shape, int warpgroups) {
  constexpr std::array<double, 4> step = {0, 0.74, 1, 1.22};  // by warpgroups
  constexpr double start_up = 0.8;
  constexpr double merge = 2.5;
  constexpr double merge_of_rows = 0.017;  // of 64
  const double own = step.at(static_cast<std::size_t>(warpgroups));
  const int queries = 64 * warpgroups;
  const auto context = static_cast<int>(shape.context);
  const int bytes_of_key = static_cast<int>(shape.head_dim) * 4;  // K and V
  const TileOrder::Shape tiles{.context = context,
                               .heads = static_cast<int>(shape.heads),
                               .batch = static_cast<int>(shape.batch),
                               .outer = queries,
                               .inner = forward_keys(shape.head_dim, shape.causal),
                               .causal = shape.causal,
                               .reach = (context + queries - 1) / queries * queries,
                               .section = heads_per_section(shape, bytes_of_key)};
  const DivisionCosts costs{.start_up = start_up / own,
                            .merge = merge / own,
                            .merge_of_part = merge_of_rows * warpgroups / own};
  const TileOrder order = divided(tiles, costs, multiprocessors());
  return {order, own * estimated(order, costs, multiprocessors())};
}

}  // namespace

ForwardPlan::ForwardPlan(const FlashShape& shape)
    : warpgroups(most_warpgroups(shape.head_dim)),
      rows(static_cast<std::size_t>(shape.batch * shape.heads * shape.context)),
      head_dim(static_cast<std::size_t>(shape.head_dim)) {
  Candidate best = candidate(shape, warpgroups);
  for (int w = warpgroups - 1; w >= 1; --w) {
    const Candidate found = candidate(shape, w);
    if (found.time < best.time) {
      best = found;
      warpgroups = w;
    }
  }
  order = best.order;
}

std::size_t ForwardPlan::bytes() const {
  if (!divides()) return 0;
  return static_cast<std::size_t>(order.parts(0)) * rows * (head_dim + 1) * sizeof(float);
}

ForwardSpace ForwardPlan::at(void* workspace) const {
  if (!divides()) return {};
  auto* const o = static_cast<float*>(workspace);
  return {.o = o, .logsumexp = o + static_cast<std::size_t>(order.parts(0)) * rows * head_dim};
}

std::size_t sm90_forward_workspace_bytes(const FlashShape& shape) {
  return ForwardPlan(shape).bytes();
}

TileSize sm90_forward_tile(const FlashShape& shape) {
  return {64 * ForwardPlan(shape).warpgroups, forward_keys(shape.head_dim, shape.causal)};
}

}  // namespace paceline
