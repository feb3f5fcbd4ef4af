// What is indexed by token ids: the embedding and cross-entropy. Losses are summed in double, in
// the order of the rows.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/vector_exp.h"

namespace paceline {

namespace {

// Throws InternalError, beginning with `what`, if an id [R] is outside [begin, end).
void check_ids(const char* what, const Tensor& ids, std::int64_t begin, std::int64_t end) {
  const std::int32_t* first = ids.as<std::int32_t>();
  const std::int32_t* last = first + ids.numel();
  const std::int32_t* bad =
      std::find_if(first, last, [&](auto id) { return id < begin || id >= end; });
  if (bad == last) return;
  throw InternalError(
      fmt::format("{} {} at position {} is not below {}", what, *bad, bad - first, end));
}

}  // namespace

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

void CpuOps::cross_entropy(const Tensor& loss, const Tensor& logsumexp, const Tensor& logits,
                           const Tensor& targets) {
  const std::int64_t n = logits.cols();
  const std::int64_t rows = logits.rows();
  const std::int32_t* target = targets.as<std::int32_t>();
  check_ids("cross_entropy: target", targets, no_target, n);
  with_compute_type({loss, logsumexp, logits}, [&]<class C>() {
    for_each_row<C, 1>(one_per_row(logsumexp), {logits}, [&](std::int64_t, C* y, const C* x) {
      C highest = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : highest)
      for (std::int64_t j = 0; j < n; ++j) highest = x[j] > highest ? x[j] : highest;
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < n; ++j) sum += vector_exp(x[j] - highest);
      *y = static_cast<C>(highest + std::log(sum));
    });
    double total = 0;
    std::int64_t count = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      if (target[r] == no_target) continue;
      total += element<double>(logsumexp, r) - element<double>(logits, r * n + target[r]);
      ++count;
    }
    set_element(loss, 0, total / static_cast<double>(count));
  });
}

void CpuOps::cross_entropy_backward(const Tensor& dlogits, const Tensor& logits,
                                    const Tensor& logsumexp, const Tensor& targets,
                                    const StepState& state) {
  const std::int64_t n = logits.cols();
  const auto count = static_cast<double>((logits.rows() - state.without_target) * state.ranks);
  const std::int32_t* target = targets.as<std::int32_t>();
  const double loss_scale = scalar(state, StepScalar::loss_scale);
  with_compute_type({dlogits, logits, logsumexp}, [&]<class C>() {
    for_each_row<C, 1>(dlogits, {logits}, [&](std::int64_t r, C* dx, const C* x) {
      if (target[r] == no_target) {
        std::fill(dx, dx + n, C{0});
        return;
      }
      const auto factor = static_cast<C>(loss_scale / count);
      const C shift = element<C>(logsumexp, r);
      const C at_target = vector_exp(x[target[r]] - shift);
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) dx[j] = vector_exp(x[j] - shift) * factor;
      dx[target[r]] = (at_target - 1) * factor;
    });
  });
}

}  // namespace paceline
