#pragma once
// Reference for one head of attention: its definition in float64 on the host, with complete rows of
// scores, for selected query rows.

#include <cstdint>
#include <vector>

#include "core/ops.h"
#include "core/tensor.h"

namespace paceline {

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

// rows: query rows, ascending. Uses all OpenMP threads.
[[nodiscard]] HeadResults head_reference(const AttentionShape& shape,
                                         const std::vector<std::int64_t>& rows, const HeadRows& q,
                                         const HeadRows& k, const HeadRows& v, const HeadRows& d_o);

}  // namespace paceline
