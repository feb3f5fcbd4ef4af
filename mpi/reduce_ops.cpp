#include "mpi/reduce_ops.h"

#include <algorithm>
#include <cstdint>

#include "core/error.h"

namespace paceline {

namespace {

template <ReduceOp op>
float combined(float a, float b) {
  if constexpr (op == ReduceOp::sum) {
    return a + b;
  } else if constexpr (op == ReduceOp::prod) {
    return a * b;
  } else if constexpr (op == ReduceOp::min) {
    return std::min(a, b);
  } else {
    static_assert(op == ReduceOp::max);
    return std::max(a, b);
  }
}

template <class T, ReduceOp op>
void combine(void* in, void* in_out, int* count, MPI_Datatype* /*type*/) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(in_out);
  for (int i = 0; i < *count; ++i) {
    b[i] = T(combined<op>(static_cast<float>(a[i]), static_cast<float>(b[i])));
  }
}

template <class T>
std::array<HalfOp, 4> half_ops() {
  return {HalfOp(combine<T, ReduceOp::sum>), HalfOp(combine<T, ReduceOp::prod>),
          HalfOp(combine<T, ReduceOp::min>), HalfOp(combine<T, ReduceOp::max>)};
}

template <class Arithmetic, class T>
void divide_as(const Tensor& x, int n) {
  T* values = x.as<T>();
  const std::int64_t count = x.numel();
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = T(static_cast<Arithmetic>(values[i]) / static_cast<Arithmetic>(n));
  }
}

}  // namespace

MPI_Datatype mpi_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return MPI_DOUBLE;
    case Dtype::f32: return MPI_FLOAT;
    case Dtype::i32: return MPI_INT32_T;
    case Dtype::bf16:
    case Dtype::f16: return MPI_UINT16_T;
  }
  throw_unnamed(static_cast<std::size_t>(dtype));
}

HalfOp::HalfOp(MPI_User_function* combine) {
  constexpr int commutative = 1;
  MPI_CHECK(MPI_Op_create(combine, commutative, &op_));
}

HalfOp::~HalfOp() { MPI_Op_free(&op_); }

ReduceOps::ReduceOps() : bf16_(half_ops<bf16>()), f16_(half_ops<f16>()) {}

MPI_Op ReduceOps::of(ReduceOp op, Dtype dtype) const {
  const std::array<MPI_Op, 4> own = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
  const auto i = static_cast<std::size_t>(op == ReduceOp::avg ? ReduceOp::sum : op);
  switch (dtype) {
    case Dtype::bf16: return bf16_.at(i).get();
    case Dtype::f16: return f16_.at(i).get();
    case Dtype::f64:
    case Dtype::f32:
    case Dtype::i32: return own.at(i);
  }
  throw_unnamed(static_cast<std::size_t>(dtype));
}

void divide(const Tensor& x, int n) {
  switch (x.dtype) {
    case Dtype::f64: return divide_as<double, double>(x, n);
    case Dtype::f32: return divide_as<float, float>(x, n);
    case Dtype::bf16: return divide_as<float, bf16>(x, n);
    case Dtype::f16: return divide_as<float, f16>(x, n);
    case Dtype::i32: return divide_as<std::int32_t, std::int32_t>(x, n);
  }
}

}  // namespace paceline
