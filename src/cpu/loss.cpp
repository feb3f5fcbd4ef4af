// Cross-entropy. Losses are summed in double, in the order of the rows.

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/vector_exp.h"

namespace paceline {

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
