#pragma once
// Precision: one dtype per component, as a table that is printed with every run.

#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace paceline {

// How a GEMM multiplies float32: as it is, or rounded to tf32 (10 bits after the point).
enum class GemmMath : std::uint8_t { exact, tf32 };
constexpr auto names_of(GemmMath) { return names("exact", "tf32"); }

struct Precision {
  std::string_view name;
  Dtype parameters;  // master weights, and Adam's m and v
  Dtype compute;     // what GEMMs read and write
  GemmMath gemm = GemmMath::exact;
  Dtype residual;    // the residual stream, from the embedding on
  Dtype statistics;  // softmax and norms: what they compute in
  Dtype logits;
  Dtype loss;
  Dtype gradients;      // of parameters
  Dtype communication;  // of gradients between ranks; each rank's are rounded to it, and so are
                        // their sums
  bool loss_scaling = false;

  [[nodiscard]] bool operator==(const Precision&) const = default;

  // A low-precision copy of the weights stands beside the masters.
  [[nodiscard]] bool mixed() const { return compute != parameters; }
};

// fp32 (or float32), bf16 (bfloat16), fp16 (float16); they follow PyTorch autocast's table.
// tf32 is fp32 with GemmMath::tf32, which the CPU multiplies as exact. fp64 is the oracle of the
// tests. Throws UsageError for another name.
[[nodiscard]] const Precision& precision_named(std::string_view name);

}  // namespace paceline
