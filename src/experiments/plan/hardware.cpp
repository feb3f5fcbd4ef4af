#include "experiments/plan/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

}  // namespace paceline
