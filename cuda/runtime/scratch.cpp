#include "cuda/runtime/scratch.h"

namespace paceline {

float* Scratch::floats(std::int64_t count) {
  if (memory_.empty() || memory_.tensor().numel() < count) {
    memory_ = {};
    const Scope scope(device_.scopes(), "scratch");
    memory_ = device_.allocate({count}, Dtype::f32, MemoryKind::workspace);
  }
  return memory_.tensor().as<float>();
}

}  // namespace paceline
