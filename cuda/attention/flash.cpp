// Chooses the engine of a call by GPU and shape.

#include "cuda/attention/flash.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "core/error.h"
#include "cuda/attention/flash_engine.h"
#include "cuda/attention/head_dim.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

namespace {

constexpr std::int64_t max_heads = 65535;  // of a grid's second and third dimension

constexpr std::array engines = {&exact_engine, &sm90_engine, &sm80_engine};

// The kernels need Ampere's instructions and the shared memory of a data-centre GPU.
void check_gpu() {
  constexpr int shared_bytes_needed = 163 * 1024;
  static const int shared_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (compute_capability() < 80 || shared_bytes < shared_bytes_needed) {
    throw EnvironmentError(
        "--attention flash needs a GPU of compute capability 8.0 or newer with 163 KiB of shared "
        "memory a block (A100, H100, H200); use naive or fused");
  }
}

void check_shape(const FlashShape& s) {
  if (s.batch * s.context * s.heads < 1) throw InternalError("flash attention of no rows");
  if (std::find(head_dims.begin(), head_dims.end(), s.head_dim) == head_dims.end()) {
    throw EnvironmentError(fmt::format(
        "--attention flash on a GPU serves head dimensions {}, not {}; use naive or fused",
        fmt::join(head_dims, ", "), s.head_dim));
  }
  if (s.dtype != Dtype::f32 && s.dtype != Dtype::bf16 && s.dtype != Dtype::f16) {
    throw EnvironmentError(
        "--attention flash on a GPU serves float32, bfloat16 and float16 inputs");
  }
  if (s.batch > max_heads || s.batch * s.heads > max_heads) {
    throw EnvironmentError(
        fmt::format("--attention flash on a GPU serves up to {} heads in a batch, not {} x {}",
                    max_heads, s.batch, s.heads));
  }
}

// Kernels move 16 bytes at a time.
void check_alignment(const FlashShape& s, std::span<const FlashHeads> all) {
  const std::int64_t pack = 16 / static_cast<std::int64_t>(size_of(s.dtype));
  for (const FlashHeads& x : all) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
                         x.batch_stride % pack == 0 && x.row_stride % pack == 0 &&
                         x.head_stride % pack == 0;
    if (!aligned) throw InternalError("flash attention: rows must start at multiples of 16 bytes");
  }
}

const FlashEngine& engine_for(const FlashShape& s, FlashPass pass) {
  check_shape(s);
  for (const FlashEngine* engine : engines) {
    if (engine->supports(s, pass)) return *engine;
  }
  throw_no_flash(s.dtype);
}

}  // namespace

void throw_no_flash(Dtype dtype) {
  throw InternalError("no flash kernel of " + std::string(name_of(dtype)) + " on this path");
}

std::size_t flash_workspace_bytes(const FlashShape& s, FlashPass pass) {
  return engine_for(s, pass).workspace(s, pass);
}

FlashPlan flash_plan(const FlashShape& s) {
  check_gpu();
  const auto tiles = [&](FlashPass pass) { return engine_for(s, pass).plan(s, pass); };
  return {.forward = tiles(FlashPass::forward), .backward = tiles(FlashPass::backward)};
}

void flash_forward(const FlashForward& call) {
  check_gpu();
  const FlashEngine& engine = engine_for(call.shape, FlashPass::forward);
  check_alignment(call.shape, operands(call));
  engine.forward(call);
}

void flash_backward(const FlashBackward& call) {
  check_gpu();
  const FlashEngine& engine = engine_for(call.shape, FlashPass::backward);
  check_alignment(call.shape, operands(call));
  engine.backward(call);
}

}  // namespace paceline
