#include <tuple>
#include <vector>

#include "core/error.h"
#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

class Matmul : public OpsTest {
 protected:
  // op(m)[i, j] of one batch index, by the definition of Matrix.
  static double at(const std::vector<double>& values, const Matrix& m, std::int64_t b0,
                   std::int64_t b1, std::int64_t i, std::int64_t j) {
    const std::int64_t row = m.transposed ? j : i;
    const std::int64_t col = m.transposed ? i : j;
    return values[static_cast<std::size_t>(b0 * m.batch_stride[0] + b1 * m.batch_stride[1] +
                                           row * m.row_stride + col)];
  }

  // The elements of c's tensor after c = alpha a b + beta c; others keep their values.
  static std::vector<double> expected(const Matrix& c, const Matrix& a, const Matrix& b,
                                      double alpha, double beta) {
    const std::vector<double> av = values(a.tensor);
    const std::vector<double> bv = values(b.tensor);
    std::vector<double> cv = values(c.tensor);
    const std::int64_t k = a.transposed ? a.rows : a.cols;
    for (std::int64_t b0 = 0; b0 < c.batch[0]; ++b0) {
      for (std::int64_t b1 = 0; b1 < c.batch[1]; ++b1) {
        for (std::int64_t i = 0; i < c.rows; ++i) {
          for (std::int64_t j = 0; j < c.cols; ++j) {
            double sum = 0;
            for (std::int64_t l = 0; l < k; ++l) {
              sum += at(av, a, b0, b1, i, l) * at(bv, b, b0, b1, l, j);
            }
            double& out = cv[static_cast<std::size_t>(
                b0 * c.batch_stride[0] + b1 * c.batch_stride[1] + i * c.row_stride + j)];
            out = alpha * sum + (beta == 0 ? 0 : beta * out);
          }
        }
      }
    }
    return cv;
  }

  void check(const Matrix& c, const Matrix& a, const Matrix& b, double alpha = 1, double beta = 0) {
    const std::vector<double> want = expected(c, a, b, alpha, beta);
    const auto k = static_cast<double>(a.transposed ? a.rows : a.cols);
    ops->matmul(c, a, b, alpha, beta);
    expect_close(c.tensor, want, 1, std::sqrt(k));
  }
};

TEST_F(Matmul, every_size_transpose_and_dtype_over_poisoned_outputs) {
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                {1, 5, 3},
                                {3, 1, 7},
                                {2, 3, 1},
                                {127, 1, 9},
                                {1, 129, 9},
                                {129, 33, 65},
                                {64, 64, 64}}) {
    for (const Dtype d : floating_dtypes) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " " << name_of(d)
                                          << (ta ? " a^T" : "") << (tb ? " b^T" : ""));
          const Array a = ta ? random({k, m}, d) : random({m, k}, d);
          const Array b = tb ? random({n, k}, d) : random({k, n}, d);
          const Array c = poisoned({m, n}, d);
          check(Matrix(c), ta ? Matrix(a).transpose() : Matrix(a),
                tb ? Matrix(b).transpose() : Matrix(b));
        }
      }
    }
  }
}

TEST_F(Matmul, alpha_and_beta) {
  for (const Dtype d : floating_dtypes) {
    for (const double alpha : {1.0, -0.5}) {
      for (const double beta : {0.0, 1.0, 0.25}) {
        SCOPED_TRACE(testing::Message() << name_of(d) << " " << alpha << " " << beta);
        const Array c = beta == 0 ? poisoned({5, 7}, d) : random({5, 7}, d);
        const Array a = random({5, 3}, d);
        const Array b = random({3, 7}, d);
        check(Matrix(c), Matrix(a), Matrix(b), alpha, beta);
      }
    }
  }
}

TEST_F(Matmul, the_result_may_have_another_dtype) {
  for (const Dtype in : floating_dtypes) {
    for (const Dtype out : floating_dtypes) {
      for (const double beta : {0.0, 1.0}) {
        SCOPED_TRACE(testing::Message() << name_of(in) << " to " << name_of(out) << " " << beta);
        const Array c = beta == 0 ? poisoned({9, 11}, out) : random({9, 11}, out);
        const Array a = random({9, 33}, in);
        const Array b = random({33, 11}, in);
        const std::vector<double> want = expected(Matrix(c), Matrix(a), Matrix(b), 1, beta);
        ops->matmul(Matrix(c), Matrix(a), Matrix(b), 1, beta);
        // The result is rounded once: the tolerance is that of its dtype or of float sums.
        const bool wide = in == Dtype::f64 || out != Dtype::f64;
        expect_close(c, want, wide ? 1 : tolerance(Dtype::f32) / tolerance(Dtype::f64), 6);
      }
    }
  }
}

TEST_F(Matmul, an_operand_may_be_repeated_over_a_batch_dimension) {
  for (const Dtype d : floating_dtypes) {
    for (const int repeated : {0, 1, 2}) {  // over the outer, the inner or both dimensions
      SCOPED_TRACE(testing::Message() << name_of(d) << " " << repeated);
      const Array a_array = random({2 * 3 * 4, 5}, d);
      const Array b_array = random({2 * 3 * 5, 6}, d);
      const Array c_array = poisoned({2 * 3 * 4, 6}, d);
      Matrix a(a_array);
      Matrix b(b_array);
      Matrix c(c_array);
      a.rows = c.rows = 4;
      b.rows = 5;
      a.batch = b.batch = c.batch = {2, 3};
      a.batch_stride = {3 * 20, 20};
      c.batch_stride = {3 * 24, 24};
      b.batch_stride = {repeated == 1 ? 90 : 0, repeated == 0 ? 30 : 0};
      check(c, a, b);
    }
  }
}

TEST_F(Matmul, a_single_row_may_have_any_stride) {
  const Array a_array = random({1, 8}, Dtype::f32);
  const Array b = random({8, 3}, Dtype::f32);
  const Array c_array = poisoned({1, 3}, Dtype::f32);
  Matrix a(a_array);
  Matrix c(c_array);
  a.row_stride = 0;
  c.row_stride = 0;
  check(c, a, Matrix(b));
}

TEST_F(Matmul, half_types_use_a_workspace_that_the_ledger_sees) {
  const Array a = random({64, 64}, Dtype::bf16);
  const Array c = poisoned({64, 64}, Dtype::bf16);
  device.ledger().reset_peak();
  ops->matmul(Matrix(c), Matrix(a), Matrix(a));
  EXPECT_EQ(device.ledger().peak(MemoryKind::workspace), 3U * 64 * 64 * 4);
  EXPECT_EQ(device.ledger().bytes(MemoryKind::workspace), 0U);
}

TEST_F(Matmul, refuses_what_does_not_fit) {
  const Array x = random({4, 6}, Dtype::f32);
  const Array y = random({4, 6}, Dtype::f64);
  const Matrix a = Matrix(x).transpose();  // [6, 4]
  const Matrix b(x);                       // [4, 6]
  const Array z = random({6, 6}, Dtype::f32);
  const Matrix c(z);
  EXPECT_NO_THROW(ops->matmul(c, a, b));
  EXPECT_THROW(ops->matmul(c, a, b.transpose()), InternalError);
  EXPECT_THROW(ops->matmul(c, a.transpose(), b), InternalError);
  EXPECT_THROW(ops->matmul(Matrix(x), a, b), InternalError);
  EXPECT_THROW(ops->matmul(c.transpose(), a, b), InternalError);
  EXPECT_THROW(ops->matmul(c, a, Matrix(y)), InternalError);
  Matrix batched = a;
  batched.batch = {2, 1};
  EXPECT_THROW(ops->matmul(c, batched, b), InternalError);
  Matrix long_rows = a;
  long_rows.row_stride = std::int64_t{1} << 31;
  EXPECT_THROW(ops->matmul(c, long_rows, b), InternalError);
}

TEST_F(Matmul, refuses_an_operand_with_a_scale) {
  const Array x = random({4, 4}, Dtype::f32);
  const Array y = random({4, 4}, Dtype::f32);
  const Array z = random({4, 4}, Dtype::f32);
  const Array scale = tensor({1}, Dtype::f32, {2});
  std::array<Matrix, 3> operands = {Matrix(x), Matrix(y), Matrix(z)};
  for (Matrix& scaled : operands) {
    scaled.scale = scale;
    EXPECT_THROW(ops->matmul(operands[0], operands[1], operands[2]), InternalError);
    scaled.scale = {};
    EXPECT_NO_THROW(ops->matmul(operands[0], operands[1], operands[2]));
  }
}

}  // namespace
}  // namespace paceline
