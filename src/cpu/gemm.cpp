// Matrix products through CBLAS. float and double operands are passed to it directly; half types
// are converted to packed float matrices in the workspace, and the result is converted back.

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/threads.h"

namespace paceline {

namespace {

// The offset of the matrix of a batch index, in elements.
std::int64_t start(const Matrix& m, std::int64_t batch) {
  return batch / m.batch[1] * m.batch_stride[0] + batch % m.batch[1] * m.batch_stride[1];
}

// The packed layout of a matrix: contiguous rows. An operand broadcast over a batch dimension
// (stride 0) stays broadcast.
Matrix packed(const Matrix& m) {
  Matrix p = m;
  p.row_stride = m.cols;
  const bool inner = m.batch_stride[1] != 0;
  p.batch_stride[1] = inner ? m.rows * m.cols : 0;
  p.batch_stride[0] = m.batch_stride[0] != 0 ? m.rows * m.cols * (inner ? m.batch[1] : 1) : 0;
  return p;
}

// The number of matrices in memory along a batch dimension: 1 if it is broadcast (stride 0).
std::int64_t copies(const Matrix& m, std::size_t dimension) {
  return m.batch_stride.at(dimension) != 0 ? m.batch.at(dimension) : 1;
}

std::int64_t packed_numel(const Matrix& p) { return copies(p, 0) * copies(p, 1) * p.rows * p.cols; }

// Copies a matrix to another layout and dtype; one of the two dtypes is C.
template <class C>
void convert(const Matrix& to, const Matrix& from) {
  const std::int64_t outer = copies(from, 0);
  const std::int64_t inner = copies(from, 1);
#pragma omp parallel for collapse(3) \
    schedule(static) if (outer * inner * from.rows * from.cols >= serial_below)
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      for (std::int64_t r = 0; r < from.rows; ++r) {
        const auto row = [&](const Matrix& m) {
          return i * m.batch_stride[0] + j * m.batch_stride[1] + r * m.row_stride;
        };
        if (to.tensor.dtype == dtype_of<C>) {
          load(to.tensor.as<C>() + row(to), from.tensor, row(from), from.cols);
        } else {
          store(to.tensor, row(to), from.tensor.as<C>() + row(from), from.cols);
        }
      }
    }
  }
}

// The product of one batch index.
template <class C>
void gemm(const Matrix& c, const Matrix& a, const Matrix& b, std::int64_t batch, double alpha,
          double beta) {
  const auto data = [&](const Matrix& m) { return m.tensor.as<C>() + start(m, batch); };
  const auto transpose = [](const Matrix& m) { return m.transposed ? CblasTrans : CblasNoTrans; };
  // The stride of a matrix with one row is arbitrary, but the BLAS requires at least the columns.
  const auto stride = [](const Matrix& m) {
    return static_cast<int>(std::max({m.row_stride, m.cols, std::int64_t{1}}));
  };
  const auto m = static_cast<int>(c.rows);
  const auto n = static_cast<int>(c.cols);
  const auto k = static_cast<int>(a.read_cols());
  if constexpr (std::is_same_v<C, double>) {
    cblas_dgemm(CblasRowMajor, transpose(a), transpose(b), m, n, k, alpha, data(a), stride(a),
                data(b), stride(b), beta, data(c), stride(c));
  } else {
    cblas_sgemm(CblasRowMajor, transpose(a), transpose(b), m, n, k, static_cast<float>(alpha),
                data(a), stride(a), data(b), stride(b), static_cast<float>(beta), data(c),
                stride(c));
  }
}

// If there are at least as many products as threads (attention's heads), they run in parallel, one
// thread each; otherwise one after another, each with all threads.
template <class C>
void batched_gemm(const Matrix& c, const Matrix& a, const Matrix& b, double alpha, double beta) {
  const std::int64_t count = c.batch[0] * c.batch[1];
  if (count > 1 && count >= omp_get_max_threads() && SingleThreadedBlas::effective()) {
    // Read before the guard, since OpenBLAS's OpenMP build changes it.
    const int threads = omp_get_max_threads();
    const SingleThreadedBlas guard;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::int64_t i = 0; i < count; ++i) gemm<C>(c, a, b, i, alpha, beta);
  } else {
    for (std::int64_t i = 0; i < count; ++i) gemm<C>(c, a, b, i, alpha, beta);
  }
}

}  // namespace

void CpuOps::multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                      double beta) {
  for (const Matrix* m : {&c, &a, &b}) {
    if (std::max({m->rows, m->cols, m->row_stride}) > std::numeric_limits<int>::max()) {
      throw InternalError("matmul: a dimension is beyond the BLAS's 32-bit integers");
    }
  }
  with_compute_type({a.tensor}, [&]<class C>() {
    std::vector<Array> scratch;
    const auto in_workspace = [&](const Matrix& m) {
      Matrix p = packed(m);
      p.tensor = scratch.emplace_back(workspace({packed_numel(p)}, dtype_of<C>));
      return p;
    };
    const auto as_compute = [&](const Matrix& m) {
      if (m.tensor.dtype == dtype_of<C>) return m;
      const Matrix p = in_workspace(m);
      convert<C>(p, m);
      return p;
    };
    const Matrix a_c = as_compute(a);
    const Matrix b_c = as_compute(b);
    if (c.tensor.dtype == dtype_of<C>) {
      batched_gemm<C>(c, a_c, b_c, alpha, beta);
      return;
    }
    const Matrix c_c = in_workspace(c);
    if (beta != 0) convert<C>(c_c, c);
    batched_gemm<C>(c_c, a_c, b_c, alpha, beta);
    convert<C>(c, c_c);
  });
}

}  // namespace paceline
