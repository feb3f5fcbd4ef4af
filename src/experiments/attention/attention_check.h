#pragma once
// Comparison of attention's results with a float64 reference on the host, from the same rounded
// inputs. For long sequences, query rows are sampled: the first and the last, some at edges of
// tiles, and at least one of every 128. O, logsumexp and dQ are compared at the sampled rows only.
// dK and dV are compared at all keys; dO is 0 outside the sampled rows, so that each sum over
// queries has few terms.

#include <cstdint>
#include <string>
#include <vector>

#include "core/ops.h"
#include "core/tensor.h"

namespace paceline {

// Standard normal numbers rounded to a dtype, in host memory.
struct AttentionInputs {
  AttentionShape shape;
  std::vector<float> qkv;  // [B, T, 3, H, d]
  std::vector<float> d_o;  // [B, T, H, d]

  AttentionInputs(const AttentionShape& of, Dtype dtype, std::uint64_t seed, int rank);
};

struct AttentionResults {
  std::vector<float> o;          // [B, T, H, d]
  std::vector<float> logsumexp;  // [B, H, T], or empty
  std::vector<float> dqkv;       // [B, T, 3, H, d]
};

// error: ||x - reference|| / max(||reference||, sqrt(n / T)), where n is the number of compared
// elements of O. The second term is the norm of n random terms of weight 1 / T; it is needed
// because dQ and dK vanish at T = 1. "_row": the largest error of one row of d elements, where the
// second term is sqrt(d max(sum of P^2, 1 / T^2)); one wrong row among thousands hardly changes the
// error of all. For logsumexp, error is the largest absolute error. If a result is NaN, error is
// NaN or infinite.
struct OutputError {
  std::string output;  // "o", "dq", "dk", "dv", each of these with "_row", "logsumexp"
  double error = 0;
  double tolerance = 0;  // the largest error that passes
  [[nodiscard]] bool passed() const { return error <= tolerance; }
};

// The query rows that are checked, ascending: all rows if that takes about a second or less. tiles:
// of flash attention; empty for other kinds, where edges of tiles of 64 and 128 rows are checked.
[[nodiscard]] std::vector<std::int64_t> checked_rows(const AttentionShape& shape,
                                                     std::uint64_t seed,
                                                     const FlashPlan& tiles = {});
// dO [B, T, H, d] with 0 outside `rows`.
[[nodiscard]] std::vector<float> gradient_of_rows(const AttentionInputs& inputs,
                                                  const std::vector<std::int64_t>& rows);
// `got` must have been computed with gradient_of_rows() as dO.
[[nodiscard]] std::vector<OutputError> attention_errors(const AttentionInputs& inputs,
                                                        const std::vector<std::int64_t>& rows,
                                                        const AttentionResults& got,
                                                        const OpsConfig& config);

// The rows [T, d] of one head, float32 in host memory.
class HeadRows {
 public:
  HeadRows(const Heads& x, std::int64_t b, std::int64_t h)
      : first_(x.tensor.as<float>() + x.at(b, 0, h)), stride_(x.row_stride) {}
  const float* operator[](std::int64_t t) const { return first_ + t * stride_; }

 private:
  const float* first_;
  std::int64_t stride_;
};

struct HeadResults {
  std::vector<double> o;          // [rows, d]
  std::vector<double> logsumexp;  // [rows]
  std::vector<double> dq;         // [rows, d]
  std::vector<double> dk;         // [T, d], summed over these query rows
  std::vector<double> dv;         // [T, d], summed over these query rows
  // Sums of P^2 over a query's keys [rows], and over these query rows for each key [T]: a sum of
  // random rows with the weights P has about the root of that times the norm of a row.
  std::vector<double> query_weight;
  std::vector<double> key_weight;
};

// Reference for one head: the definition in float64 on the host, with complete rows of scores, for
// selected query rows, ascending. Uses all OpenMP threads.
[[nodiscard]] HeadResults head_reference(const AttentionShape& shape,
                                         const std::vector<std::int64_t>& rows, const HeadRows& q,
                                         const HeadRows& k, const HeadRows& v, const HeadRows& d_o);

}  // namespace paceline
