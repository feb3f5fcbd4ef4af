#include "cuda/attention/flash.h"

#include "core/error.h"

namespace paceline {

namespace {

[[noreturn]] void refuse() {
  throw EnvironmentError(
      "--attention: flash is not built yet on the GPU; use naive or fused, or --device cpu");
}

}  // namespace

std::size_t flash_workspace_bytes(const FlashShape& /*shape*/, FlashPass /*pass*/) { refuse(); }
FlashTiles flash_tiles(const FlashShape& /*shape*/) { refuse(); }
void flash_forward(const FlashForward& /*call*/) { refuse(); }
void flash_backward(const FlashBackward& /*call*/) { refuse(); }

}  // namespace paceline
