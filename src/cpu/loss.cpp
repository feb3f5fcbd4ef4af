// Cross-entropy. Losses are summed in double, row by row.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/vector_exp.h"

namespace paceline {

void CpuOps::cross_entropy(const Tensor& loss, const Tensor& logsumexp, const Tensor& logits,
                           const Tensor& targets) {
  const std::int64_t n = logits.cols();
  const std::int64_t rows = logits.rows();
  const std::int32_t* target = targets.as<std::int32_t>();
  for (std::int64_t r = 0; r < rows; ++r) {
    if (target[r] < 0 || target[r] >= n) {
      throw InternalError(
          fmt::format("cross_entropy: target {} at position {} is not below {}", target[r], r, n));
    }
  }
  with_compute_type({loss.dtype, logsumexp.dtype, logits.dtype}, [&]<class C>() {
#pragma omp parallel if (logits.numel() >= serial_below)
    {
      Reader<C> xs(logits, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* x = xs.read(r * n, n);
        C highest = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : highest)
        for (std::int64_t j = 0; j < n; ++j) highest = x[j] > highest ? x[j] : highest;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < n; ++j) sum += vector_exp(x[j] - highest);
        set_element(logsumexp, r, static_cast<C>(highest + std::log(sum)));
      }
    }
    double total = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      total += element<double>(logsumexp, r) - element<double>(logits, r * n + target[r]);
    }
    set_element(loss, 0, total / static_cast<double>(rows));
  });
}

void CpuOps::cross_entropy_backward(const Tensor& dlogits, const Tensor& logits,
                                    const Tensor& logsumexp, const Tensor& targets,
                                    const StepState& state) {
  const std::int64_t n = logits.cols();
  const std::int64_t rows = logits.rows();
  const std::int32_t* target = targets.as<std::int32_t>();
  const double loss_scale = scalar(state, StepScalar::loss_scale);
  with_compute_type({dlogits.dtype, logits.dtype, logsumexp.dtype}, [&]<class C>() {
    const auto factor = static_cast<C>(loss_scale / static_cast<double>(rows * state.ranks));
#pragma omp parallel if (logits.numel() >= serial_below)
    {
      Reader<C> xs(logits, n);
      Writer<C> dxs(dlogits, n);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        const C* x = xs.read(r * n, n);
        const C shift = element<C>(logsumexp, r);
        const C at_target = vector_exp(x[target[r]] - shift);
        C* dx = dxs.at(r * n);
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) dx[j] = vector_exp(x[j] - shift) * factor;
        dx[target[r]] = (at_target - 1) * factor;
        dxs.flush(n);
      }
    }
  });
}

}  // namespace paceline
