#include "core/precision.h"

#include <array>
#include <string>

#include "core/error.h"

namespace paceline {

namespace {

constexpr Precision uniform(std::string_view name, Dtype d) {
  return {.name = name,
          .parameters = d,
          .compute = d,
          .residual = d,
          .statistics = d,
          .logits = d,
          .loss = d,
          .gradients = d,
          .communication = d};
}

constexpr Precision mixed(std::string_view name, Dtype low, bool loss_scaling) {
  Precision p = uniform(name, Dtype::f32);
  p.compute = low;
  p.logits = low;
  p.loss_scaling = loss_scaling;
  return p;
}

constexpr Precision tf32() {
  Precision p = uniform("tf32", Dtype::f32);
  p.gemm = GemmMath::tf32;
  return p;
}

constexpr std::array<Precision, 5> precisions = {
    uniform("fp64", Dtype::f64), uniform("fp32", Dtype::f32), tf32(),
    mixed("bf16", Dtype::bf16, false), mixed("fp16", Dtype::f16, true)};

}  // namespace

const Precision& precision_named(std::string_view name) {
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
