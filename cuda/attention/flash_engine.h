#pragma once
// FlashEngine: the flash attention kernels of one GPU generation or one arithmetic. flash.cpp asks
// the engines in order; the first that supports a pass of a shape serves it.

#include <array>
#include <cstddef>
#include <span>

#include "cuda/attention/flash.h"

namespace paceline {

struct FlashEngine {
  // Whether the engine has kernels for the shape on this GPU, which flash.cpp has checked to be
  // sm_80 or newer.
  bool (*supports)(const FlashShape& shape, FlashPass pass);
  // Throws EnvironmentError if the kernels cannot address operands of these strides. Null: they can
  // address all.
  void (*check)(const FlashShape& shape, std::span<const FlashHeads> operands);
  std::size_t (*workspace)(const FlashShape& shape, FlashPass pass);  // bytes
  FlashTiles (*plan)(const FlashShape& shape, FlashPass pass);
  void (*forward)(const FlashForward& call);
  void (*backward)(const FlashBackward& call);
};

extern const FlashEngine exact_engine;  // float32 without tensor cores
extern const FlashEngine sm90_engine;   // bfloat16 and float16; float32 as bf16x3, forward
extern const FlashEngine sm80_engine;   // bfloat16, float16, and float32 as bf16x3 or tf32

// The tensors of a call that have the heads' layout.
inline std::array<FlashHeads, 4> operands(const FlashForward& call) {
  return {call.q, call.k, call.v, call.o};
}
inline std::array<FlashHeads, 8> operands(const FlashBackward& call) {
  return {call.q, call.k, call.v, call.o, call.d_o, call.dq, call.dk, call.dv};
}

}  // namespace paceline
