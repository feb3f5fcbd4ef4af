#pragma once
// Element types and reductions as MPI takes them.

#include <array>

#include "core/communicator.h"
#include "core/dtype.h"
#include "core/non_copyable.h"
#include "core/tensor.h"
#include "mpi/check.h"

namespace paceline {

// MPI knows no half types: they travel as 16-bit integers.
[[nodiscard]] MPI_Datatype mpi_type(Dtype dtype);

// An operator of our own.
class HalfOp : NonCopyable {
 public:
  explicit HalfOp(MPI_User_function* combine);
  ~HalfOp();

  [[nodiscard]] MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
};

// Half types: float arithmetic, rounded to the half type after each combination of two values.
class ReduceOps {
 public:
  ReduceOps();

  // avg is the sum's: divide() does the rest.
  [[nodiscard]] MPI_Op of(ReduceOp op, Dtype dtype) const;

 private:
  using HalfOps = std::array<HalfOp, 4>;  // sum, prod, min, max
  HalfOps bf16_;
  HalfOps f16_;
};

// x / n in place; half types by way of float, integers without the remainder.
void divide(const Tensor& x, int n);

}  // namespace paceline
