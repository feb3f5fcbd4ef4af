#include "experiments/plan/plan_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/toml.h"
#include "harness/ceilings.h"

namespace paceline {

namespace {

struct Figure {
  const char* key;
  double DataSheet::*value;
  bool required;
};
constexpr std::array figures = {Figure{"memory_GB", &DataSheet::memory_gb, true},
                                Figure{"memory_GB_per_s", &DataSheet::memory_gb_per_s, true},
                                Figure{"link_GB_per_s", &DataSheet::link_gb_per_s, true},
                                Figure{"network_GB_per_s", &DataSheet::network_gb_per_s, true},
                                Figure{"half_TFLOP_per_s", &DataSheet::half, false},
                                Figure{"tf32_TFLOP_per_s", &DataSheet::tf32, false},
                                Figure{"fp32_TFLOP_per_s", &DataSheet::fp32, false}};

DataSheet device_in(const toml::key& key, const toml::node& node) {
  const toml::table* table = node.as_table();
  if (!table) throw error_at(key.source(), fmt::format("{} must be a table", key.str()));
  const auto lacking = [&](std::string_view what) {
    return error_at(key.source(), fmt::format("{} lacks {}", key.str(), what));
  };
  DataSheet device{.name = std::string(key.str())};
  const toml::node* count = table->get("node_devices");
  if (!count) throw lacking("node_devices");
  constexpr std::int64_t most_devices = 1'000'000;
  const std::int64_t devices = count->value_exact<std::int64_t>().value_or(0);
  if (devices < 1 || devices > most_devices) {
    throw error_at(count->source(),
                   fmt::format("node_devices must be an integer from 1 to {}", most_devices));
  }
  device.node_devices = static_cast<int>(devices);
  const toml::node* source = table->get("source");
  if (!source || !source->is_string()) throw lacking("a source");
  device.source = source->as_string()->get();
  for (const Figure& figure : figures) {
    const toml::node* entry = table->get(figure.key);
    if (!entry && figure.required) throw lacking(figure.key);
    if (!entry) continue;
    constexpr double least = 1e-9;
    constexpr double most = 1e9;
    const double number = entry->value<double>().value_or(0);
    const bool is_sound = number >= least && number <= most;  // NaN is not
    if (!is_sound) {
      throw error_at(entry->source(),
                     fmt::format("{} must be a number from {} to {}", figure.key, least, most));
    }
    device.*figure.value = number;
  }
  return device;
}

// In the order in which backward finishes them.
std::vector<ParameterEntry> two_matrix_entries(const TrainingCase& c) {
  std::vector<ParameterEntry> entries;
  for (std::int64_t i = c.layers - 1; i >= 0; --i) {
    const auto add = [&](const char* name, const Shape& shape) {
      entries.push_back({.views = {{fmt::format("layers.{}.{}", i, name), shape}},
                         .shape = shape,
                         .unit = fmt::format("block {}", i)});
    };
    add("w2", {c.d_model, c.d_ff});
    add("w1", {c.d_ff, c.d_model});
  }
  return entries;
}

void check_divides(const char* option, std::int64_t value, int tensor) {
  if (value % tensor == 0) return;
  throw UsageError(fmt::format("--tp: {} ranks do not divide {} {}; use a divisor of it", tensor,
                               option, value));
}

}  // namespace

double peak_flops_per_s(const DataSheet& device, const Precision& precision) {
  if (const auto peak = device.flops_per_s(precision)) return *peak;
  throw UsageError(
      fmt::format("--hardware: {} has no stated peak for {}; give --peak-tflops or another "
                  "--precision",
                  device.name, precision.name));
}

double attention_flops_per_s(const DataSheet& device, const OpsConfig& config) {
  const AttentionArithmetic arithmetic = attention_arithmetic(config, DeviceKind::cuda);
  if (const auto peak = device.flops_per_s(arithmetic.precision)) {
    return *peak / arithmetic.products;
  }
  return peak_flops_per_s(device, config.precision);
}

double bandwidth_bytes_per_s(const DataSheet& device, std::int64_t devices, int rings) {
  const double link = giga * device.link_gb_per_s;
  if (devices <= device.node_devices) return link;
  return std::min(link, giga * device.network_gb_per_s / std::min(rings, device.node_devices));
}

bool is_device(std::string_view device, std::string_view name) {
  const DataSheet* sheet = data_sheet_of(device);
  return device == name || (sheet != nullptr && !sheet->name.empty() && sheet->name == name);
}

std::vector<DataSheet> known_hardware(const std::string& file) {
  std::vector<DataSheet> all;
  if (!file.empty()) {
    for (const auto& [key, node] : read_toml(file)) all.push_back(device_in(key, node));
  }
  for (const DataSheet& sheet : data_sheets()) {
    const bool replaced = std::ranges::count(all, sheet.name, &DataSheet::name) > 0;
    if (!sheet.name.empty() && !replaced) all.push_back(sheet);
  }
  return all;
}

double PlanCase::forward_flops_per_token() const {
  if (block_kind == BlockKind::two_matrix) return 2 * parameters();
  StepShape shape = step.step_shape();
  shape.mode = Mode::forward;
  return paceline::step_flops(shape).total() / group_tokens();
}

double PlanCase::step_flops() const {
  if (block_kind == BlockKind::transformer)
    return paceline::step_flops(step.step_shape()).total() * data_ranks();
  const double passes = step.recompute.blocks > 0 ? 4 : 3;
  return passes * forward_flops_per_token() * tokens();
}

Work PlanCase::work() const {
  if (block_kind == BlockKind::two_matrix) {
    return {.feed_forward_flops = step_flops() / static_cast<double>(ranks())};
  }
  const StepShape shape = step.step_shape();
  const ProductFlops flops = paceline::step_flops(shape);
  const double activations = 2 * memory_form(shape).activations;  // written and read
  return {.projection_flops = flops.projections / tensor,
          .feed_forward_flops = flops.feed_forward / tensor,
          .head_flops = flops.head / tensor,
          .attention_flops = flops.attention / tensor,
          .parameter_bytes = (step_bytes(shape) - activations) / tensor,
          .activation_bytes = activations / tensor,
          .blocks = static_cast<double>(step.layers),
          .heads = static_cast<double>(step.batch_size * step.heads * step.layers) / tensor};
}

double PlanCase::weight_flops_per_s() const {
  const Work all = work();
  const double rate = rates.feed_forward_flops_per_s;
  if (rates.projection_flops_per_s == rate && rates.head_flops_per_s == rate) return rate;
  return all.weight_flops() /
         (all.projection_flops / rates.projection_flops_per_s + all.feed_forward_flops / rate +
          all.head_flops / rates.head_flops_per_s);
}

StrategyShape PlanCase::strategy_shape() const {
  if (block_kind == BlockKind::transformer) return step.strategy_shape();
  return {.config = step.strategy_config(),
          .entries = two_matrix_entries(step),
          .precision = step.ops_config().precision,
          .ranks = data_ranks()};
}

void check_plan(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  if (plan.block_kind == BlockKind::transformer) {
    check_model(c.model());
    check_divides("--heads", c.heads, plan.tensor);
  } else if (c.recompute.swiglu) {
    throw UsageError("--recompute: swiglu goes with --blocks transformer; use none or K");
  }
  check_divides("--d-model", c.d_model, plan.tensor);
  check_divides("--d-ff", c.d_ff, plan.tensor);
}

}  // namespace paceline
