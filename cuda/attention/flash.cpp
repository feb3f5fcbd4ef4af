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
  if (s.heads > max_heads) {
    throw EnvironmentError(fmt::format("--attention flash on a GPU serves up to {} heads, not {}",
                                       max_heads, s.heads));
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

// The launches of a call, each for as many sequences of the batch as a grid has room for: calls
// f(part, first) with the shape of each and the index of its first sequence.
template <class F>
void for_each_launch(FlashShape s, F f) {
  check_shape(s);
  const std::int64_t batch = s.batch;
  const std::int64_t most = max_heads / s.heads;
  for (std::int64_t first = 0; first < batch; first += most) {
    s.batch = std::min(most, batch - first);
    f(s, first);
  }
}

void skip(FlashHeads& x, std::int64_t sequences, Dtype dtype) {
  x.data = static_cast<std::byte*>(x.data) +
           sequences * x.batch_stride * static_cast<std::int64_t>(size_of(dtype));
}

void check_operands(const FlashEngine& engine, const FlashShape& s,
                    std::span<const FlashHeads> all) {
  check_alignment(s, all);
  if (engine.check != nullptr) engine.check(s, all);
}

}  // namespace

void throw_no_flash(Dtype dtype) {
  throw InternalError("no flash kernel of " + std::string(name_of(dtype)) + " on this path");
}

std::size_t flash_workspace_bytes(const FlashShape& s, FlashPass pass) {
  std::size_t most = 0;
  for_each_launch(s, [&](const FlashShape& part, std::int64_t) {
    most = std::max(most, engine_for(part, pass).workspace(part, pass));
  });
  return most;
}

FlashPlan flash_plan(const FlashShape& s) {
  check_gpu();
  check_shape(s);
  FlashShape first = s;
  first.batch = std::min(s.batch, max_heads / s.heads);
  const std::array packed = {FlashHeads{.row_stride = 3 * s.heads * s.head_dim}};
  const auto tiles = [&](FlashPass pass) {
    const FlashEngine& engine = engine_for(first, pass);
    check_operands(engine, s, packed);
    return engine.plan(first, pass);
  };
  return {.forward = tiles(FlashPass::forward), .backward = tiles(FlashPass::backward)};
}

void flash_forward(const FlashForward& call) {
  check_gpu();
  const FlashEngine& engine = engine_for(call.shape, FlashPass::forward);
  check_operands(engine, call.shape, operands(call));
  for_each_launch(call.shape, [&](const FlashShape& shape, std::int64_t first) {
    FlashForward part = call;
    part.shape = shape;
    for (FlashHeads* x : {&part.q, &part.k, &part.v, &part.o}) skip(*x, first, shape.dtype);
    part.logsumexp += first * shape.heads * shape.context;
    engine.forward(part);
  });
}

void flash_backward(const FlashBackward& call) {
  check_gpu();
  const FlashEngine& engine = engine_for(call.shape, FlashPass::backward);
  check_operands(engine, call.shape, operands(call));
  for_each_launch(call.shape, [&](const FlashShape& shape, std::int64_t first) {
    FlashBackward part = call;
    part.shape = shape;
    for (FlashHeads* x :
         {&part.q, &part.k, &part.v, &part.o, &part.d_o, &part.dq, &part.dk, &part.dv}) {
      skip(*x, first, shape.dtype);
    }
    part.logsumexp += first * shape.heads * shape.context;
    engine.backward(part);
  });
}

}  // namespace paceline
