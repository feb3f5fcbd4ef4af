#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/units.h"
#include "model/accounting.h"

namespace paceline {

namespace {

// Elements of logsumexp [B, H, T], of q, k, v or o [B, H, T, d], and of the scores [B, H, T, T].
double rows(const AttentionShape& s) { return static_cast<double>(s.batch * s.heads * s.context); }
double elements(const AttentionShape& s) { return rows(s) * static_cast<double>(s.head_dim); }
double scores(const AttentionShape& s) { return rows(s) * static_cast<double>(s.context); }

}  // namespace

double attention_flops(const AttentionShape& shape) {
  return 4 * scores(shape) * static_cast<double>(shape.head_dim) * (shape.causal ? 0.5 : 1);
}

double executed_attention_flops(AttentionKind kind, const AttentionShape& shape) {
  if (kind == AttentionKind::flash) return (1 + attention_backward_factor) * attention_flops(shape);
  AttentionShape whole = shape;
  whole.causal = false;
  return 3 * attention_flops(whole);
}

double attention_kept_bytes(AttentionKind kind, const Precision& precision,
                            const AttentionShape& shape) {
  return kind == AttentionKind::flash ? rows(shape) * bytes_of(precision.statistics)
                                      : scores(shape) * bytes_of(precision.compute);
}

double attention_forward_bytes(const Precision& precision, const AttentionShape& shape) {
  return 4 * elements(shape) * bytes_of(precision.compute) +
         rows(shape) * bytes_of(precision.statistics);
}

double attention_backward_bytes(const Precision& precision, const AttentionShape& shape) {
  return 8 * elements(shape) * bytes_of(precision.compute) +
         rows(shape) * bytes_of(precision.statistics);
}

AttentionMemory attention_memory(AttentionKind kind, const Precision& precision,
                                 const AttentionShape& shape, bool upcasts_gemm_inputs) {
  const bool flash = kind == AttentionKind::flash;
  const double one = elements(shape) * bytes_of(precision.compute);
  const double kept = attention_kept_bytes(kind, precision, shape);
  AttentionMemory m;
  m.saved = 3 * one + kept + (flash ? one : 0);
  m.before_backward = 5 * one + kept;
  // q, k, v, the result, and their gradients.
  m.peak_terms.push_back({"8 B H T d e", 8 * one});
  if (flash) {
    m.peak_terms.push_back({"4 B H T", kept});
    return m;
  }
  // The probabilities and their gradient.
  m.peak_terms.push_back({"2 B H T^2 e", 2 * kept});
  if (upcasts_gemm_inputs && precision.mixed()) {
    m.peak_terms.push_back(
        {"4 B H T (T + 2 d)", sizeof(float) * (scores(shape) + 2 * elements(shape))});
  }
  return m;
}

double AttentionMemory::peak() const {
  double sum = 0;
  for (const MemoryTerm& term : peak_terms) sum += term.bytes;
  return sum;
}

std::string AttentionMemory::peak_formula() const {
  std::vector<std::string> formulas;
  std::vector<std::string> bytes;
  for (const MemoryTerm& term : peak_terms) {
    formulas.emplace_back(term.formula);
    bytes.push_back(bytes_text(term.bytes));
  }
  return fmt::format("{} = {}", fmt::join(formulas, " + "), fmt::join(bytes, " + "));
}

}  // namespace paceline
