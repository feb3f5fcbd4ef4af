#pragma once
// What attention's results should be, in float64 on the host, from the same rounded inputs. Where a
// sequence is too long for all of it, rows of queries are sampled: O, logsumexp and dQ are compared
// at these, dK and dV everywhere, with a gradient dO that is 0 outside of them, so that each of
// their sums has few terms. At least one row of every 128 is sampled.

#include <cstdint>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/ops.h"

namespace paceline {

// Standard normal numbers, rounded to a dtype; on the host.
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

// error: ||x - reference|| / max(||reference||, sqrt(n / T)), n the elements of O that are compared
// (dQ and dK vanish at length 1; n random terms that weigh 1 / T come to the second); of logsumexp
// the largest absolute one. Not a number, or infinite, where a result is NaN.
struct OutputError {
  std::string output;  // "o", "logsumexp", "dq", "dk", "dv"
  double error = 0;
  double bar = 0;
  [[nodiscard]] bool passed() const { return error <= bar; }
};

// The rows of queries that are checked, in order: all, where that takes a second or so.
[[nodiscard]] std::vector<std::int64_t> checked_rows(const AttentionShape& shape,
                                                     std::uint64_t seed);
// dO with 0 in every other row.
[[nodiscard]] std::vector<float> gradient_of_rows(const AttentionInputs& inputs,
                                                  const std::vector<std::int64_t>& rows);
// Of results that were computed with gradient_of_rows().
[[nodiscard]] std::vector<OutputError> attention_errors(const AttentionInputs& inputs,
                                                        const std::vector<std::int64_t>& rows,
                                                        const AttentionResults& got,
                                                        const OpsConfig& config);

// Between the host and a tensor of any floating dtype that floats have been rounded to.
void put_floats(Device& device, const Tensor& to, const std::vector<float>& from);
[[nodiscard]] std::vector<float> get_floats(Device& device, const Tensor& from);

}  // namespace paceline
