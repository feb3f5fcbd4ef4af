#include "model/attention_accounting.h"

namespace paceline {

double attention_flops(const AttentionShape& shape) {
  const auto T = static_cast<double>(shape.context);
  const auto rows = static_cast<double>(shape.batch * shape.heads * shape.head_dim);
  return 4 * rows * T * T * (shape.causal ? 0.5 : 1);
}

double attention_kept_bytes(AttentionKind kind, const Precision& precision,
                            const AttentionShape& shape) {
  const auto rows = static_cast<double>(shape.batch * shape.heads * shape.context);
  if (kind == AttentionKind::flash)
    return rows * static_cast<double>(size_of(precision.statistics));
  return rows * static_cast<double>(shape.context) *
         static_cast<double>(size_of(precision.compute));
}

}  // namespace paceline
