#include "experiments/precision/norm_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "core/ops.h"
#include "core/random.h"
#include "core/toy_ops.h"

namespace paceline {

namespace {

constexpr std::int64_t norm_rows = 32;
constexpr double norm_eps = 1e-5;

std::vector<float> random_input(const NormsFactors& c, std::uint64_t seed) {
  std::vector<float> x(static_cast<std::size_t>(norm_rows * c.width));  // [R, D]
  Random(seed, 0).fill_normal(x);
  for (float& v : x) v = static_cast<float>(c.scale * (c.mean + static_cast<double>(v)));
  return x;
}

// The norm in float64 by the formulas of core/ops.h and core/toy_ops.h; weights 1, biases 0. [R, D]
std::vector<double> reference(const NormsFactors& c, const std::vector<float>& x) {
  const auto width = static_cast<std::size_t>(c.width);
  const auto count = static_cast<double>(c.width);
  std::vector<double> y(x.size());
  for (std::size_t first = 0; first < x.size(); first += width) {
    double center = 0;
    for (std::size_t j = first; j < first + width; ++j) center += x[j] / count;
    if (c.norm == NormKind::rms_norm) center = 0;
    double mean_square = 0;
    for (std::size_t j = first; j < first + width; ++j) {
      mean_square += (x[j] - center) * (x[j] - center) / count;
    }
    for (std::size_t j = first; j < first + width; ++j) {
      y[j] = (x[j] - center) / std::sqrt(mean_square + norm_eps);
    }
  }
  return y;
}

template <class T>
double relative_distance(const std::vector<T>& got, const std::vector<double>& want) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    difference += d * d;
    size += want[i] * want[i];
  }
  if (difference == 0) return 0;
  const double distance = std::sqrt(difference / size);
  return std::isfinite(distance) ? distance : std::numeric_limits<double>::infinity();
}

class DeviceNorm {
 public:
  DeviceNorm(Device& device, const NormsFactors& c) : device_(device), case_(c) {}

  // Copies x to the device in the half type; returns the rounded values.
  [[nodiscard]] std::vector<float> load(const std::vector<float>& x) {
    device_.to_device(wide_, x.data());
    ops_->cast(x_, wide_);
    return floats(x_);
  }
  [[nodiscard]] std::vector<float> with_float32_statistics() {
    if (case_.norm == NormKind::layer_norm) {
      toys_->layer_norm(y_, mean_, rstd_, x_, ones_, zeros_, norm_eps);
    } else {
      ops_->rms_norm(y_, rstd_, x_, ones_, norm_eps);
    }
    return floats(y_);
  }
  [[nodiscard]] std::vector<float> rounded() {
    toys_->rounded_norm(y_, x_, case_.norm, norm_eps);
    return floats(y_);
  }

 private:
  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype) {
    return device_.allocate(shape, dtype, MemoryKind::activation);
  }
  [[nodiscard]] Array filled(double value) {
    Array x = allocate({case_.width}, Dtype::f32);
    ops_->fill(x, value);
    return x;
  }
  [[nodiscard]] std::vector<float> floats(const Tensor& half) {
    ops_->cast(wide_, half);
    std::vector<float> values(static_cast<std::size_t>(half.numel()));
    device_.to_host(values.data(), wide_);
    return values;
  }

  Device& device_;
  const NormsFactors& case_;
  std::unique_ptr<Ops> ops_ = device_.make_ops({.precision = precision_named("fp32")});
  std::unique_ptr<ToyOps> toys_ = device_.make_toy_ops();
  Array wide_ = allocate({norm_rows, case_.width}, Dtype::f32);
  Array x_ = allocate({norm_rows, case_.width}, case_.norm_dtype);
  Array y_ = allocate({norm_rows, case_.width}, case_.norm_dtype);
  Array mean_ = allocate({norm_rows}, Dtype::f32);
  Array rstd_ = allocate({norm_rows}, Dtype::f32);
  Array ones_ = filled(1);
  Array zeros_ = filled(0);
};

struct Series {
  std::string norm;
  std::string dtype;
  double mean = 0;

  [[nodiscard]] bool operator==(const Series&) const = default;
};

Series series_of(const Row& row) {
  return {value_in<std::string>(row, "norm"), value_in<std::string>(row, "norm_dtype"),
          value_in<double>(row, "mean")};
}

struct ScaledError {
  double scale = 0;
  double error = 0;
};

// Scales as text; empty if there is none.
struct ScaleRange {
  std::string holds_from;
  std::string holds_to;
  std::string breaks_at;
};

// points: ascending in scale.
ScaleRange scale_range(const std::vector<ScaledError>& points) {
  const auto holds = [](const ScaledError& p) { return p.error <= norm_breaks_above; };
  auto longest_begin = points.end();
  auto longest_end = points.end();
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find_if_not(begin, points.end(), holds);
    if (end - begin > longest_end - longest_begin) {
      longest_begin = begin;
      longest_end = end;
    }
    begin = std::find_if(end, points.end(), holds);
  }
  if (longest_begin == longest_end) return {};
  return {.holds_from = to_text(longest_begin->scale),
          .holds_to = to_text((longest_end - 1)->scale),
          .breaks_at = longest_end == points.end() ? "" : to_text(longest_end->scale)};
}

std::vector<ScaledError> points_of(const std::vector<Row>& summary, const Series& series,
                                   const char* error) {
  std::vector<ScaledError> points;
  for (const Row& row : summary) {
    if (series_of(row) != series) continue;
    points.push_back({value_in<double>(row, "scale"), value_in<double>(row, error)});
  }
  std::sort(points.begin(), points.end(),
            [](const auto& a, const auto& b) { return a.scale < b.scale; });
  return points;
}

}  // namespace

double norm_memory(const NormsFactors& c) {
  const std::size_t each = size_of(Dtype::f32) + 2 * size_of(c.norm_dtype);
  return static_cast<double>(norm_rows * c.width) * static_cast<double>(each);
}

NormErrors norm_errors(Device& device, const NormsFactors& c, std::uint64_t seed) {
  const std::vector<float> x = random_input(c, seed);
  DeviceNorm norm(device, c);
  const std::vector<double> of_rounded = reference(c, norm.load(x));
  return {.input = relative_distance(of_rounded, reference(c, x)),
          .float32 = relative_distance(norm.with_float32_statistics(), of_rounded),
          .rounded = relative_distance(norm.rounded(), of_rounded)};
}

void add_norm_errors(CaseRecord& record, const NormErrors& errors) {
  record.add("input_error", errors.input);
  record.add("float32_statistics_error", errors.float32);
  record.add("rounded_statistics_error", errors.rounded);
}

std::vector<Table> norm_breaks(const std::vector<Row>& summary) {
  std::vector<Series> all;
  for (const Row& row : summary) {
    const Series series = series_of(row);
    if (std::find(all.begin(), all.end(), series) == all.end()) all.push_back(series);
  }
  if (all.empty()) return {};
  TableRows table("norm_breaks");
  for (const Series& series : all) {
    const auto add = [&](const char* statistics, const char* error) {
      const ScaleRange range = scale_range(points_of(summary, series, error));
      table.add({{"norm", series.norm},
                 {"norm_dtype", series.dtype},
                 {"mean", to_text(series.mean)},
                 {"statistics", std::string(statistics)},
                 {"holds_from", range.holds_from},
                 {"holds_to", range.holds_to},
                 {"breaks_at", range.breaks_at}});
    };
    add("float32", "float32_statistics_error");
    add("rounded", "rounded_statistics_error");
  }
  return {table.take()};
}

}  // namespace paceline
