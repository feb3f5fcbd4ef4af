#pragma once
// What an operation takes, and fresh random copies of it.

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
  double touched = 1;      // the share of it that the operation reads or writes
  double std = 1;          // of the normal numbers that it starts with; 0: zeros
  std::int32_t below = 0;  // int32: drawn from [0, below)
};

[[nodiscard]] double bytes_of(const std::vector<Operand>& operands);
// Of these, what the operation reads or writes: what a cache would have to hold.
[[nodiscard]] double touched_bytes(const std::vector<Operand>& operands);

// Each input is read once and each output written once: what any implementation must move.
[[nodiscard]] double least_traffic(const std::vector<Operand>& operands);

// Several sets of the same operands, all different. Outputs start as zeros, so that no page is
// touched for the first time while a clock runs.
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
