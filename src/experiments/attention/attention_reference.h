#pragma once
// One head of attention by its definition, in float64 on the host: rows of scores are whole, and
// only rows that are asked for are computed.

#include <cstdint>
#include <vector>

#include "core/matrix.h"
#include "core/ops.h"

namespace paceline {

// The rows [T, d] of one head, float32 on the host.
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
  std::vector<double> dk;         // [T, d]: what these rows of queries add to it
  std::vector<double> dv;         // [T, d]: likewise
};

// rows: of queries, in order. On all threads.
[[nodiscard]] HeadResults head_reference(const AttentionShape& shape,
                                         const std::vector<std::int64_t>& rows, const HeadRows& q,
                                         const HeadRows& k, const HeadRows& v, const HeadRows& d_o);

}  // namespace paceline
