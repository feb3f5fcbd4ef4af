// Matrix products through CBLAS. float and double go straight to it; half types are converted to
// packed float matrices in the workspace, and the result back.

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "cpu/blas.h"
#include "cpu/cpu_ops.h"
#include "cpu/rows.h"

namespace paceline {

namespace {

std::int64_t batches(const Matrix& m) { return m.batch[0] * m.batch[1]; }

// Where the matrix of a batch index starts, in elements.
std::int64_t start(const Matrix& m, std::int64_t batch) {
  return batch / m.batch[1] * m.batch_stride[0] + batch % m.batch[1] * m.batch_stride[1];
}

void check_for_blas(const Matrix& c, const Matrix& a, const Matrix& b) {
  for (const Matrix* m : {&c, &a, &b}) {
    if (std::max({m->rows, m->cols, m->row_stride}) > std::numeric_limits<int>::max()) {
      throw InternalError("matmul: a dimension is beyond the BLAS's 32-bit integers");
    }
  }
}

// How a matrix is laid out when its rows are packed one after another; an operand that is repeated
// over a batch dimension (stride 0) stays one.
Matrix packed(const Matrix& m) {
  Matrix p = m;
  p.row_stride = m.cols;
  const bool inner = m.batch_stride[1] != 0;
  p.batch_stride[1] = inner ? m.rows * m.cols : 0;
  p.batch_stride[0] = m.batch_stride[0] != 0 ? m.rows * m.cols * (inner ? m.batch[1] : 1) : 0;
  return p;
}

std::int64_t packed_numel(const Matrix& p) {
  const std::int64_t outer = p.batch_stride[0] != 0 ? p.batch[0] : 1;
  const std::int64_t inner = p.batch_stride[1] != 0 ? p.batch[1] : 1;
  return outer * inner * p.rows * p.cols;
}

// Copies rows, converting; `convert(to_start, from_start)` does one row.
template <class F>
void for_each_row(const Matrix& to, const Matrix& from, F convert) {
  const std::int64_t outer = from.batch_stride[0] != 0 ? from.batch[0] : 1;
  const std::int64_t inner = from.batch_stride[1] != 0 ? from.batch[1] : 1;
#pragma omp parallel for collapse(3) \
    schedule(static) if (outer * inner * from.rows * from.cols >= serial_below)
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      for (std::int64_t r = 0; r < from.rows; ++r) {
        const auto row = [&](const Matrix& m) {
          return i * m.batch_stride[0] + j * m.batch_stride[1] + r * m.row_stride;
        };
        convert(row(to), row(from));
      }
    }
  }
}

template <class C>
void unpack_from(const Matrix& to, const Matrix& from) {  // from: of type C
  const C* x = from.tensor.as<C>();
  for_each_row(to, from,
               [&](std::int64_t t, std::int64_t f) { store(to.tensor, t, x + f, from.cols); });
}

template <class C>
void pack_into(const Matrix& to, const Matrix& from) {  // to: of type C
  C* y = to.tensor.as<C>();
  for_each_row(to, from,
               [&](std::int64_t t, std::int64_t f) { load(y + t, from.tensor, f, from.cols); });
}

template <class C>
void gemm(const Matrix& c, std::int64_t c_start, const Matrix& a, std::int64_t a_start,
          const Matrix& b, std::int64_t b_start, double alpha, double beta) {
  const auto transpose = [](const Matrix& m) { return m.transposed ? CblasTrans : CblasNoTrans; };
  // With one row the stride may be anything, but the BLAS insists.
  const auto stride = [](const Matrix& m) {
    return static_cast<int>(std::max({m.row_stride, m.cols, std::int64_t{1}}));
  };
  const auto m = static_cast<int>(c.rows);
  const auto n = static_cast<int>(c.cols);
  const auto k = static_cast<int>(a.read_cols());
  const C* a_data = a.tensor.as<C>() + a_start;
  const C* b_data = b.tensor.as<C>() + b_start;
  C* c_data = c.tensor.as<C>() + c_start;
  if constexpr (std::is_same_v<C, double>) {
    cblas_dgemm(CblasRowMajor, transpose(a), transpose(b), m, n, k, alpha, a_data, stride(a),
                b_data, stride(b), beta, c_data, stride(c));
  } else {
    cblas_sgemm(CblasRowMajor, transpose(a), transpose(b), m, n, k, static_cast<float>(alpha),
                a_data, stride(a), b_data, stride(b), static_cast<float>(beta), c_data, stride(c));
  }
}

// As many products as threads or more (the heads of attention) run side by side, one thread each;
// fewer one after another, with all threads.
template <class C>
void batched_gemm(const Matrix& c, const Matrix& a, const Matrix& b, double alpha, double beta) {
  const std::int64_t count = batches(c);
  const auto one = [&](std::int64_t i) {
    gemm<C>(c, start(c, i), a, start(a, i), b, start(b, i), alpha, beta);
  };
  if (count > 1 && count >= omp_get_max_threads() && SingleThreadedBlas::effective()) {
    const int threads =
        omp_get_max_threads();  // OpenBLAS's OpenMP build changes it under the guard
    const SingleThreadedBlas guard;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::int64_t i = 0; i < count; ++i) one(i);
  } else {
    for (std::int64_t i = 0; i < count; ++i) one(i);
  }
}

}  // namespace

void CpuOps::multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                      double beta) {
  check_for_blas(c, a, b);
  with_compute_type({a.tensor.dtype}, [&]<class C>() {
    std::vector<Array> scratch;
    const auto in_workspace = [&](const Matrix& m) {
      Matrix p = packed(m);
      p.tensor = scratch.emplace_back(workspace({packed_numel(p)}, dtype_of<C>));
      return p;
    };
    const auto as_compute = [&](const Matrix& m) {
      if (m.tensor.dtype == dtype_of<C>) return m;
      const Matrix p = in_workspace(m);
      pack_into<C>(p, m);
      return p;
    };
    const Matrix a_c = as_compute(a);
    const Matrix b_c = as_compute(b);
    if (c.tensor.dtype == dtype_of<C>) {
      batched_gemm<C>(c, a_c, b_c, alpha, beta);
      return;
    }
    const Matrix c_c = in_workspace(c);
    if (beta != 0) pack_into<C>(c_c, c);
    batched_gemm<C>(c_c, a_c, b_c, alpha, beta);
    unpack_from<C>(c, c_c);
  });
}

}  // namespace paceline
