#include "core/precision.h"

#include <array>
#include <string>

#include "core/error.h"

namespace paceline {

const Precision& precision_named(std::string_view name) {
  using enum Dtype;
  using enum GemmMath;
  // parameters, compute, gemm, residual, statistics, logits, loss, gradients, communication,
  // scaling
  static constexpr std::array<Precision, 5> precisions = {{
      {"fp64", f64, f64, exact, f64, f64, f64, f64, f64, f64, false},
      {"fp32", f32, f32, exact, f32, f32, f32, f32, f32, f32, false},
      {"tf32", f32, f32, tf32, f32, f32, f32, f32, f32, f32, false},
      {"bf16", f32, bf16, exact, f32, f32, bf16, f32, f32, f32, false},
      {"fp16", f32, f16, exact, f32, f32, f16, f32, f32, f32, true},
  }};
  if (name == "float32") name = "fp32";
  if (name == "bfloat16") name = "bf16";
  if (name == "float16") name = "fp16";
  for (const Precision& p : precisions) {
    if (p.name == name) return p;
  }
  throw UsageError("'" + std::string(name) +
                   "' is not a precision; choose fp32, bf16 or fp16 (tf32 on a GPU)");
}

}  // namespace paceline
