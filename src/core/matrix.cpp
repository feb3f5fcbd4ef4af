#include "core/matrix.h"

#include <fmt/format.h>

#include "core/error.h"

namespace paceline {

void check_product(const Matrix& c, const Matrix& a, const Matrix& b) {
  const bool shapes = !c.transposed && a.read_rows() == c.rows && b.read_cols() == c.cols &&
                      a.read_cols() == b.read_rows();
  if (!shapes || a.batch != c.batch || b.batch != c.batch) {
    throw InternalError(
        fmt::format("matmul: [{}, {}] x [{}, {}] does not make [{}, {}], or the batches differ",
                    a.read_rows(), a.read_cols(), b.read_rows(), b.read_cols(), c.rows, c.cols));
  }
  if (a.tensor.dtype != b.tensor.dtype) {
    throw InternalError(fmt::format("matmul: inputs of two types, {} and {}",
                                    name_of(a.tensor.dtype), name_of(b.tensor.dtype)));
  }
  if (!a.scale.empty() || !b.scale.empty() || !c.scale.empty()) {
    throw InternalError("matmul: an operand has a scale, and no device multiplies by one yet");
  }
}

}  // namespace paceline
