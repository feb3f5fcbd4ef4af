#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "cpu/cpu_ops.h"
#include "cpu/rows.h"

namespace paceline {

void CpuOps::check_ids(const char* what, const Tensor& ids, std::int64_t begin, std::int64_t end) {
  const std::int32_t* first = ids.as<std::int32_t>();
  const std::int32_t* last = first + ids.numel();
  const std::int32_t* bad =
      std::find_if(first, last, [&](auto id) { return id < begin || id >= end; });
  if (bad == last) return;
  throw InternalError(
      fmt::format("{} {} at position {} is not below {}", what, *bad, bad - first, end));
}

void CpuOps::embedding(const Tensor& y, const Tensor& tokens, const Tensor& table) {
  const std::int64_t width = table.cols();
  const std::int64_t rows = tokens.numel();
  const std::int32_t* ids = tokens.as<std::int32_t>();
  check_ids("embedding: token", tokens, 0, table.rows());
  with_compute_type({y, table}, [&]<class C>() {
#pragma omp parallel if (rows * width >= serial_below)
    {
      Reader<C> in(table, width);
      Writer<C> out(y, width);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        std::copy_n(in.read(ids[r] * width, width), width, out.at(r * width));
        out.flush(width);
      }
    }
  });
}

// Rows of dy are sorted by token (counting sort), so that each row of dtable is written once and
// its terms are summed in the order of their positions.
void CpuOps::embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& tokens,
                                bool accumulate) {
  const std::int64_t width = dtable.cols();
  const std::int64_t vocabulary = dtable.rows();
  const std::int64_t rows = tokens.numel();
  const std::int32_t* ids = tokens.as<std::int32_t>();
  check_ids("embedding: token", tokens, 0, vocabulary);

  const Array ends_array = workspace({vocabulary + 1}, Dtype::i32);
  const Array order_array = workspace({rows}, Dtype::i32);
  std::int32_t* ends = ends_array.tensor().as<std::int32_t>();
  std::int32_t* order = order_array.tensor().as<std::int32_t>();
  std::fill_n(ends, vocabulary + 1, 0);
  for (std::int64_t r = 0; r < rows; ++r) ++ends[ids[r] + 1];
  std::partial_sum(ends, ends + vocabulary + 1, ends);
  // ends[v] starts at the first position of token v's rows in `order` and ends after its last.
  for (std::int64_t r = 0; r < rows; ++r) order[ends[ids[r]]++] = static_cast<std::int32_t>(r);

  with_compute_type({dtable, dy}, [&]<class C>() {
  // Threads split the columns, not the vocabulary, since some tokens are far more frequent.
#pragma omp parallel for schedule(static) if (vocabulary * width >= serial_below)
    for (std::int64_t first = 0; first < width; first += column_block) {
      const std::int64_t n = std::min(column_block, width - first);
      Reader<C> gradient(dy, n);
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        const std::int32_t begin = v == 0 ? 0 : ends[v - 1];
        if (accumulate && begin == ends[v]) continue;
        std::array<double, column_block> sums{};
        if (accumulate) load(sums.data(), dtable, v * width + first, n);
        for (std::int32_t i = begin; i < ends[v]; ++i) {
          const C* g = gradient.read(order[i] * width + first, n);
          for (std::int64_t j = 0; j < n; ++j) sums[static_cast<std::size_t>(j)] += g[j];
        }
        store(dtable, v * width + first, sums.data(), n);
      }
    }
  });
}

}  // namespace paceline
