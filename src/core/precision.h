#pragma once
// Precision: one dtype per component of a training step. The table is printed with every run.

#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace paceline {

// How a GEMM multiplies float32: exactly, or rounded to tf32 (10 mantissa bits).
enum class GemmMath : std::uint8_t { exact, tf32 };
constexpr auto names_of(GemmMath) { return names("exact", "tf32"); }

struct Precision {
  std::string_view name;
  Dtype parameters;  // master weights, and Adam's m and v
  Dtype compute;     // what GEMMs read and write
  GemmMath gemm = GemmMath::exact;
  Dtype residual;    // the residual stream, from the embedding on
  Dtype statistics;  // computations of softmax and norms
  Dtype logits;
  Dtype loss;
  Dtype gradients;      // of parameters
  Dtype communication;  // collectives on gradients: each rank's gradients, and their sums, are
                        // rounded to it
  bool loss_scaling = false;

  [[nodiscard]] bool operator==(const Precision&) const = default;

  // There is a low-precision copy of the master weights.
  [[nodiscard]] bool mixed() const { return compute != parameters; }
};

// fp32 (or float32), bf16 (bfloat16), fp16 (float16); they follow PyTorch autocast's table.
// tf32 is fp32 with GemmMath::tf32; the CPU treats it as exact. fp64 is the reference of the tests.
// Throws UsageError for any other name.
[[nodiscard]] const Precision& precision_named(std::string_view name);

}  // namespace paceline
