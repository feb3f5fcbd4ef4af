// SGD and AdamW with dynamic loss scaling.

#include <cmath>
#include <limits>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"

namespace paceline {

void CpuOps::sgd(const Tensor& parameters, const Tensor& gradients, double learning_rate) {
  with_compute_type({parameters, gradients}, [&]<class C>() {
    map<C, 2>(parameters, {parameters, gradients},
              [rate = static_cast<C>(learning_rate)](C p, C g) { return p - rate * g; });
  });
}

void CpuOps::check_finite(const StepState& state, const Tensor& x) {
  constexpr std::int64_t piece = 2048;
  const std::int64_t n = x.numel();
  bool finite = true;
  with_compute_type({x}, [&]<class C>() {
#pragma omp parallel reduction(&& : finite) if (n >= serial_below)
    {
      Reader<C> xs(x, piece);
#pragma omp for schedule(static)
      for (std::int64_t first = 0; first < n; first += piece) {
        const std::int64_t count = std::min(piece, n - first);
        const C* in = xs.read(first, count);
        int bad = 0;
#pragma omp simd reduction(+ : bad)
        for (std::int64_t i = 0; i < count; ++i) {
          bad += std::abs(in[i]) <= std::numeric_limits<C>::max() ? 0 : 1;
        }
        finite = finite && bad == 0;
      }
    }
  });
  if (!finite) scalar(state, StepScalar::found_inf) = 1;
}

void CpuOps::begin_optimizer_step(const StepState& state, const AdamWConfig& config) {
  constexpr double growth_interval =
      2000;  // this and the factors 2 and 1/2: torch.amp.GradScaler's
  double& loss_scale = scalar(state, StepScalar::loss_scale);
  double& good_steps = scalar(state, StepScalar::good_steps);
  scalar(state, StepScalar::gradient_scale) = 1 / loss_scale;
  const bool skipped = scalar(state, StepScalar::found_inf) != 0;
  if (!skipped) {
    const double step = scalar(state, StepScalar::step) += 1;
    scalar(state, StepScalar::bias_correction1) = 1 - std::pow(config.beta1, step);
    scalar(state, StepScalar::bias_correction2) = 1 - std::pow(config.beta2, step);
  }
  if (!precision().loss_scaling) return;
  good_steps = skipped ? 0 : good_steps + 1;
  if (skipped) loss_scale /= 2;
  if (good_steps == growth_interval) {
    loss_scale *= 2;
    good_steps = 0;
  }
}

void CpuOps::adamw(const AdamWRange& range, const StepState& state, const AdamWConfig& config) {
  if (scalar(state, StepScalar::found_inf) != 0) return;
  constexpr std::int64_t piece = 2048;
  const std::int64_t n = range.parameters.numel();
  const double rate = scalar(state, StepScalar::learning_rate);
  with_compute_type(
      {range.parameters, range.gradients, range.m, range.v, range.copy}, [&]<class C>() {
        const auto gradient_scale = static_cast<C>(scalar(state, StepScalar::gradient_scale));
        const auto decay = static_cast<C>(1 - rate * config.weight_decay);
        const auto step_size = static_cast<C>(rate / scalar(state, StepScalar::bias_correction1));
        const auto root =
            static_cast<C>(1 / std::sqrt(scalar(state, StepScalar::bias_correction2)));
        const auto eps = static_cast<C>(config.eps);
        const auto beta1 = static_cast<C>(config.beta1);
        const auto beta2 = static_cast<C>(config.beta2);
        const auto rest1 = static_cast<C>(1 - config.beta1);
        const auto rest2 = static_cast<C>(1 - config.beta2);
#pragma omp parallel if (n >= serial_below)
        {
          Reader<C> parameters(range.parameters, piece);
          Reader<C> gradients(range.gradients, piece);
          Reader<C> ms(range.m, piece);
          Reader<C> vs(range.v, piece);
          Writer<C> new_parameters(range.parameters, piece);
          Writer<C> new_ms(range.m, piece);
          Writer<C> new_vs(range.v, piece);
#pragma omp for schedule(static)
          for (std::int64_t first = 0; first < n; first += piece) {
            const std::int64_t count = std::min(piece, n - first);
            const C* p = parameters.read(first, count);
            const C* g = gradients.read(first, count);
            const C* m = ms.read(first, count);
            const C* v = vs.read(first, count);
            C* p_out = new_parameters.at(first);
            C* m_out = new_ms.at(first);
            C* v_out = new_vs.at(first);
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) {
              const C gradient = g[i] * gradient_scale;
              m_out[i] = beta1 * m[i] + rest1 * gradient;
              v_out[i] = beta2 * v[i] + rest2 * gradient * gradient;
              p_out[i] = p[i] * decay - step_size * m_out[i] / (std::sqrt(v_out[i]) * root + eps);
            }
            if (!range.copy.empty()) store(range.copy, first, p_out, count);
            new_parameters.flush(count);
            new_ms.flush(count);
            new_vs.flush(count);
          }
        }
      });
}

void CpuOps::end_optimizer_step(const StepState& state) {
  scalar(state, StepScalar::found_inf) = 0;
}

}  // namespace paceline
