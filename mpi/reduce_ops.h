#pragma once
// MPI's datatypes and reduction operators.

#include <array>

#include "core/communicator.h"
#include "core/dtype.h"
#include "core/non_copyable.h"
#include "core/tensor.h"
#include "mpi/check.h"

namespace paceline {

// MPI has no half types: they are sent as 16-bit integers.
[[nodiscard]] MPI_Datatype mpi_type(Dtype dtype);

// An operator created by MPI_Op_create().
class HalfOp : NonCopyable {
 public:
  explicit HalfOp(MPI_User_function* combine);
  ~HalfOp();

  [[nodiscard]] MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
};

// MPI's operators, and operators for half types: float arithmetic, rounded to the half type after
// each combination of two values.
class ReduceOps {
 public:
  ReduceOps();

  // For avg the sum's operator; the caller then calls divide().
  [[nodiscard]] MPI_Op of(ReduceOp op, Dtype dtype) const;

 private:
  using HalfOps = std::array<HalfOp, 4>;  // sum, prod, min, max
  HalfOps bf16_;
  HalfOps f16_;
};

// x /= n; half types in float, integers without the remainder.
void divide(const Tensor& x, int n);

}  // namespace paceline
