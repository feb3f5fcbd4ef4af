#include "bench/kernels/inputs.h"

#include <algorithm>

#include "core/random.h"

namespace paceline {

namespace {

// Draws, converts and copies in pieces, so that the host needs little memory.
template <class T, class Draw>
void draw(Device& device, const Tensor& x, Draw draw_piece) {
  constexpr std::int64_t piece = 1 << 20;
  for (std::int64_t first = 0; first < x.numel(); first += piece) {
    const std::int64_t n = std::min(piece, x.numel() - first);
    const auto drawn = draw_piece(first, static_cast<std::size_t>(n));
    const std::vector<T> values(drawn.begin(), drawn.end());
    device.to_device(x.slice(first, {n}), values.data());
  }
}

void draw(Device& device, const Tensor& x, const Operand& operand, const Random& random) {
  if (operand.use == Use::out || operand.std == 0) {
    device.zero(x);
  } else if (x.dtype == Dtype::i32) {
    draw<std::int32_t>(device, x, [&](std::int64_t first, std::size_t n) {
      std::vector<std::int32_t> drawn(n);
      random.fill_integers(drawn, operand.below, static_cast<std::uint64_t>(first));
      return drawn;
    });
  } else {
    dispatch_floating(x.dtype, [&]<class T>() {
      draw<T>(device, x, [&](std::int64_t first, std::size_t n) {
        std::vector<float> drawn(n);
        random.fill_normal(drawn, operand.std, static_cast<std::uint64_t>(first));
        return drawn;
      });
    });
  }
}

double bytes_of(const Operand& operand) {
  return static_cast<double>(operand.shape.numel()) * static_cast<double>(size_of(operand.dtype));
}

}  // namespace

double bytes_of(const std::vector<Operand>& operands) {
  double sum = 0;
  for (const Operand& o : operands) sum += bytes_of(o);
  return sum;
}

double touched_bytes(const std::vector<Operand>& operands) {
  double sum = 0;
  for (const Operand& o : operands) sum += o.touched * bytes_of(o);
  return sum;
}

double least_traffic(const std::vector<Operand>& operands) {
  double sum = 0;
  for (const Operand& o : operands) {
    sum += (o.use == Use::in_out ? 2 : 1) * o.touched * bytes_of(o);
  }
  return sum;
}

InputSets::InputSets(Device& device, const std::vector<Operand>& operands, std::int64_t count) {
  constexpr std::uint64_t seed = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<Tensor>& set = sets_.emplace_back();
    for (const Operand& o : operands) {
      arrays_.push_back(device.allocate(o.shape, o.dtype, MemoryKind::workspace));
      set.push_back(arrays_.back());
      draw(device, set.back(), o, Random(seed, arrays_.size()));
    }
  }
}

}  // namespace paceline
