#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "experiments/training/verify.h"

namespace paceline {

namespace {

constexpr double rtol = 1e-5;
constexpr double atol = 1e-6;
constexpr double noise_factor = 8;

// The columns of the errors.
constexpr std::array<std::pair<const char*, double TensorErrors::*>, 4> columns = {
    {{"gradient_error", &TensorErrors::gradient},
     {"sgd_error", &TensorErrors::sgd},
     {"adamw_error", &TensorErrors::adamw},
     {"adamw_distance", &TensorErrors::adamw_distance}}};

bool all_finite(const Trained& run) {
  const auto is_finite = [](const NamedValues& tensor) {
    return std::ranges::all_of(tensor.values, [](float x) { return std::isfinite(x); });
  };
  return std::ranges::all_of(run.gradients, is_finite) &&
         std::ranges::all_of(run.weights, is_finite);
}

// The largest of_element(a[i], b[i]); infinite if one is NaN.
template <class F>
double largest(const std::vector<float>& a, const std::vector<float>& b, F of_element) {
  double most = 0;
#pragma omp parallel for schedule(static) reduction(max : most)
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = of_element(static_cast<double>(a[i]), static_cast<double>(b[i]));
    most = std::max(most, std::isnan(x) ? std::numeric_limits<double>::infinity() : x);
  }
  return most;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  return largest(a, b, [](double x, double y) { return std::abs(x - y); });
}

// ||a - b|| / ||b||; 0 if they are equal.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
#pragma omp parallel for schedule(static) reduction(+ : difference, norm)
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double apart = static_cast<double>(a[i]) - b[i];
    difference += apart * apart;
    norm += static_cast<double>(b[i]) * b[i];
  }
  if (difference == 0) return 0;
  const double ratio = std::sqrt(difference / norm);
  return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
}

// error / allowed. If the single-process runs are equal, allowed is 0 and any error fails.
double over(double error, double allowed) { return error <= 0 ? 0 : error / allowed; }

bool sgd_is_allowed(const TensorErrors& t) { return t.sgd <= 1; }
bool adamw_is_allowed(const TensorErrors& t) { return t.gradient <= 1 && t.adamw <= 1; }

}  // namespace

void Noise::add(const Trained& run, const Trained& first) {
  is_finite = is_finite && all_finite(run);
  tensors.resize(first.weights.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    OfTensor& noise = tensors[t];
    const std::vector<float>& weights = first.weights[t].values;
    noise.weight = std::max(noise.weight, largest_difference(run.weights[t].values, weights));
    noise.distance = std::max(noise.distance, distance(run.weights[t].values, weights));
    if (first.gradients.empty()) continue;
    noise.gradient = std::max(
        noise.gradient, largest_difference(run.gradients[t].values, first.gradients[t].values));
  }
}

void TrainingComparison::begin(const Trained& single, const Noise& noise) {
  diverged_ = diverged_ || !all_finite(single) || !noise.is_finite;
  tensors_.resize(single.weights.size());
}

bool TrainingComparison::compare_sgd(const Trained& parallel, const Trained& single,
                                     const Noise& noise) {
  begin(single, noise);
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const NamedValues& want = single.weights[t];
    const double allowed = noise_factor * noise.tensors[t].weight;
    tensors_[t].name = want.name;
    tensors_[t].sgd = largest(parallel.weights[t].values, want.values, [&](double a, double b) {
      return std::abs(a - b) / std::max(atol + rtol * std::abs(b), allowed);
    });
  }
  return std::ranges::all_of(tensors_, sgd_is_allowed);
}

bool TrainingComparison::compare_adamw(const Trained& parallel, const Trained& single,
                                       const Noise& noise) {
  begin(single, noise);
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const NamedValues& gradient = single.gradients[t];
    TensorErrors& errors = tensors_[t];
    errors.name = gradient.name;
    const double beyond =
        largest(parallel.gradients[t].values, gradient.values,
                [](double a, double b) { return std::abs(a - b) - rtol * std::abs(b); });
    errors.gradient = over(beyond, noise_factor * noise.tensors[t].gradient);
    errors.adamw_distance = distance(parallel.weights[t].values, single.weights[t].values);
    errors.adamw = over(errors.adamw_distance, noise_factor * noise.tensors[t].distance);
  }
  return std::ranges::all_of(tensors_, adamw_is_allowed);
}

Status TrainingComparison::status() const {
  if (diverged_) return Status::diverged;
  const bool fails = !std::ranges::all_of(tensors_, sgd_is_allowed) ||
                     !std::ranges::all_of(tensors_, adamw_is_allowed);
  return fails || ranks_differ_ ? Status::mismatch : Status::ok;
}

std::string TrainingComparison::reason() const {
  if (diverged_) {
    return "--verify: single-process training is not finite; lower --lr or check --load-weights";
  }
  const auto text = [&](const char* what, double TensorErrors::*error) {
    const TensorErrors& tensor = worst(error);
    return fmt::format("{} {:.3g} ({})", what, tensor.*error, tensor.name);
  };
  return fmt::format(
      "--verify: {}largest error over the allowed error: {}, {}, {}",
      ranks_differ_ ? "ranks differ in bits; " : "", text("gradients", &TensorErrors::gradient),
      text("weights after SGD", &TensorErrors::sgd), text("after AdamW", &TensorErrors::adamw));
}

const TensorErrors& TrainingComparison::worst(double TensorErrors::*error) const {
  return *std::ranges::max_element(tensors_, {}, error);
}

void TrainingComparison::add_to(CaseRecord& record) const {
  TableRows check("check");
  for (const TensorErrors& t : tensors_) {
    Row row = {{"tensor", t.name}};
    for (const auto& [name, error] : columns) row.push_back({name, t.*error});
    check.add(row);
  }
  record.tables.push_back(check.take());
  for (const auto& [name, error] : columns) {
    record.add(fmt::format("verify_{}", name), worst(error).*error);
  }
}

}  // namespace paceline
