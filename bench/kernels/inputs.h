#pragma once
// The operands of an operation, and sets of random copies of them.

#include <cstdint>
#include <span>
#include <vector>

#include "core/device.h"

namespace paceline {

enum class Use : std::uint8_t { in, out, in_out };

struct Operand {
  Use use = Use::in;
  Dtype dtype = Dtype::f32;
  Shape shape;
  double touched = 1;      // the fraction that the operation reads or writes
  double std = 1;          // of its normal random values; 0: zeros
  std::int32_t below = 0;  // int32: drawn from [0, below)
};

[[nodiscard]] double bytes_of(const std::vector<Operand>& operands);
// The bytes that the operation reads or writes, which a cache would have to hold.
[[nodiscard]] double touched_bytes(const std::vector<Operand>& operands);

// The bytes that any implementation must move: each input read once, each output written once.
[[nodiscard]] double least_traffic(const std::vector<Operand>& operands);

// Several sets of the same operands with different values. Outputs are zeroed, so that no page is
// touched for the first time while timing.
class InputSets {
 public:
  // Throws OutOfMemory.
  InputSets(Device& device, const std::vector<Operand>& operands, std::int64_t count);

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(sets_.size()); }
  [[nodiscard]] std::span<const Tensor> operator[](std::int64_t i) const {
    return sets_[static_cast<std::size_t>(i)];
  }

 private:
  std::vector<Array> arrays_;
  std::vector<std::vector<Tensor>> sets_;
};

}  // namespace paceline
