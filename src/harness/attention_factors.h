#pragma once
// The factors of attention, shared by `attention` and all experiments that train.

#include <string>
#include <string_view>

#include "core/device.h"
#include "core/error.h"
#include "core/ops.h"
#include "harness/run_options.h"
#include "measure/factors.h"

namespace paceline {

struct AttentionFactors {
  AttentionKind attention = AttentionKind::naive;
  Fp32Attention fp32_attention = Fp32Attention::bf16x3;
  FlashKernels flash_kernels = FlashKernels::newest;

  [[nodiscard]] bool operator==(const AttentionFactors&) const = default;
};

struct PrecisionFactor {
  Precision precision = precision_named("fp32");

  [[nodiscard]] bool operator==(const PrecisionFactor&) const = default;
};

template <class C>
[[nodiscard]] Factors<C> precision_factor() {
  return factors_of<PrecisionFactor>(
      axis<C>(&C::precision, "precision",
              "precision of matmuls and of the tensors they read and write (tf32 needs a GPU)"));
}

// float32 throughout.
[[nodiscard]] inline bool is_fp32(const Precision& p) { return p == precision_named("fp32"); }

// --fp32-attention applies to flash attention in fp32; --flash-kernels to flash attention on a GPU
// in half types, or in fp32 as bf16x3.
template <class C>
[[nodiscard]] Factors<C> attention_factors(std::string_view defaults) {
  return factors_of<AttentionFactors>(
      axis<C>(&C::attention, "attention",
              "kernels: naive (one per operation, in eager execution), fused (scale, mask and "
              "softmax in one), flash (no T x T matrix in memory)")
          .by_default(defaults),
      axis<C>(
          &C::fp32_attention, "fp32_attention",
          "arithmetic of flash attention's matmuls in fp32; bf16x3: each operand as two bfloat16")
          .where(
              [](const C& c) {
                return c.attention == AttentionKind::flash && is_fp32(c.precision);
              },
              "--attention flash and --precision fp32"),
      axis<C>(&C::flash_kernels, "flash_kernels",
              "flash attention kernels; newest: for the GPU's generation; sm80: for Ampere")
          .where(
              [](const C& c) {
                const bool splits =
                    is_fp32(c.precision) && c.fp32_attention == Fp32Attention::bf16x3;
                return c.device == DeviceKind::cuda && c.attention == AttentionKind::flash &&
                       (c.precision.mixed() || splits);
              },
              "--attention flash on a GPU and --precision bf16 or fp16, or fp32 with "
              "--fp32-attention bf16x3"));
}

// Throws UsageError for a precision that the device does not support.
inline void check_precision(const Precision& precision, DeviceKind device) {
  if (precision.gemm == GemmMath::tf32 && device == DeviceKind::cpu) {
    throw UsageError("--precision: tf32 needs a GPU; use fp32, bf16 or fp16 on the CPU");
  }
}

// Why the device has no attention kernels for a shape; empty if it has.
[[nodiscard]] inline std::string reason_without_kernels(const Device& device,
                                                        const OpsConfig& config,
                                                        const AttentionShape& shape) {
  try {
    device.check_attention(config, shape);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return {};
}

template <class C>
[[nodiscard]] OpsConfig ops_config_of(const C& c) {
  return {
      .precision = c.precision,
      .attention = c.attention,
      .fp32_attention = c.precision.gemm == GemmMath::tf32 ? Fp32Attention::tf32 : c.fp32_attention,
      .flash_kernels = c.flash_kernels,
      .deterministic = c.deterministic};
}

}  // namespace paceline
