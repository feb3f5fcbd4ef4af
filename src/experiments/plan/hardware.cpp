#include "experiments/plan/hardware.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/data_sheet.h"
#include "core/error.h"
#include "core/similar_name.h"
#include "core/toml.h"
#include "harness/ceilings.h"

namespace paceline {

namespace {

constexpr double tera = 1e12;

Hardware hardware_of(const toml::key& device, const toml::node& node) {
  const toml::table* table = node.as_table();
  if (!table) throw error_at(device.source(), fmt::format("{} must be a table", device.str()));
  const auto lacking = [&](std::string_view key) {
    return error_at(device.source(), fmt::format("{} lacks {}", device.str(), key));
  };
  const auto optional = [&](const char* key, double unit) -> std::optional<double> {
    const toml::node* entry = table->get(key);
    if (!entry) return {};
    constexpr double least = 1e-9;
    constexpr double most = 1e9;
    const double number = entry->value<double>().value_or(0);
    if (number >= least && number <= most) return number * unit;
    throw error_at(entry->source(),
                   fmt::format("{} must be a number from {} to {}", key, least, most));
  };
  const auto required = [&](const char* key, double unit) {
    const std::optional<double> value = optional(key, unit);
    return value ? *value : throw lacking(key);
  };
  const toml::node* count = table->get("node_devices");
  if (!count) throw lacking("node_devices");
  constexpr std::int64_t most_devices = 1'000'000;
  const std::int64_t devices = count->value_exact<std::int64_t>().value_or(0);
  if (devices < 1 || devices > most_devices) {
    throw error_at(count->source(),
                   fmt::format("node_devices must be an integer from 1 to {}", most_devices));
  }
  const toml::node* source = table->get("source");
  if (!source || !source->is_string()) throw lacking("a source");
  return {.name = std::string(device.str()),
          .memory_gb = required("memory_GB", 1),
          .half_flops_per_s = optional("half_TFLOP_per_s", tera),
          .tf32_flops_per_s = optional("tf32_TFLOP_per_s", tera),
          .fp32_flops_per_s = optional("fp32_TFLOP_per_s", tera),
          .memory_bytes_per_s = required("memory_GB_per_s", giga),
          .link_bytes_per_s = required("link_GB_per_s", giga),
          .network_bytes_per_s = required("network_GB_per_s", giga),
          .node_devices = static_cast<int>(devices),
          .source = source->as_string()->get()};
}

Hardware hardware_of(const DataSheet& sheet) {
  const auto rate = [&](std::string_view precision) {
    return sheet.flops_per_s(precision_named(precision));
  };
  return {.name = std::string(sheet.name),
          .memory_gb = sheet.memory_gb,
          .half_flops_per_s = rate("bf16"),
          .tf32_flops_per_s = rate("tf32"),
          .fp32_flops_per_s = rate("fp32"),
          .memory_bytes_per_s = sheet.memory_gb_per_s * giga,
          .link_bytes_per_s = sheet.link_gb_per_s * giga,
          .network_bytes_per_s = sheet.network_gb_per_s * giga,
          .node_devices = sheet.node_devices,
          .source = std::string(sheet.source)};
}

std::optional<double> stated_peak(const Hardware& h, const Precision& precision) {
  if (size_of(precision.compute) == 2) return h.half_flops_per_s;
  return precision.gemm == GemmMath::exact ? h.fp32_flops_per_s : h.tf32_flops_per_s;
}

// The devices of the file, then those of the data sheets that it does not replace.
std::vector<Hardware> all_hardware(const std::string& file) {
  std::vector<Hardware> all;
  if (!file.empty()) all = read_hardware(file);
  for (Hardware& known : known_hardware()) {
    const auto same = [&](const Hardware& own) { return own.name == known.name; };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(known));
  }
  return all;
}

}  // namespace

bool Hardware::has_peak(const Precision& precision) const {
  return stated_peak(*this, precision).has_value();
}

double Hardware::peak_flops_per_s(const Precision& precision) const {
  if (const auto peak = stated_peak(*this, precision)) return *peak;
  throw UsageError(
      fmt::format("--hardware: {} has no stated peak for {}; give --peak-tflops or another "
                  "--precision",
                  name, precision.name));
}

double Hardware::attention_flops_per_s(const OpsConfig& config) const {
  const AttentionArithmetic arithmetic = attention_arithmetic(config, DeviceKind::cuda);
  if (!has_peak(arithmetic.precision)) return peak_flops_per_s(config.precision);
  return peak_flops_per_s(arithmetic.precision) / arithmetic.products;
}

double Hardware::bandwidth_bytes_per_s(std::int64_t devices, int rings) const {
  return devices <= node_devices
             ? link_bytes_per_s
             : std::min(link_bytes_per_s, network_bytes_per_s / std::min(rings, node_devices));
}

std::vector<Hardware> read_hardware(const std::string& file) {
  std::vector<Hardware> all;
  for (const auto& [key, node] : read_toml(file)) all.push_back(hardware_of(key, node));
  return all;
}

std::vector<Hardware> known_hardware() {
  std::vector<Hardware> all;
  for (const DataSheet& sheet : data_sheets()) {
    if (!sheet.name.empty()) all.push_back(hardware_of(sheet));
  }
  return all;
}

bool is_device(std::string_view device, std::string_view name) {
  const DataSheet* sheet = data_sheet_of(device);
  return device == name || (sheet != nullptr && !sheet->name.empty() && sheet->name == name);
}

bool is_known_hardware(std::string_view name, const std::string& file) {
  const std::vector<Hardware> all = all_hardware(file);
  return std::any_of(all.begin(), all.end(),
                     [&](const Hardware& h) { return is_device(name, h.name); });
}

Hardware hardware_named(std::string_view name, const std::string& file) {
  std::vector<std::string> names;
  for (const Hardware& h : all_hardware(file)) {
    if (is_device(name, h.name)) return h;
    names.push_back(h.name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  throw UsageError(fmt::format("--hardware: '{}' is unknown; choose {}{}", name,
                               fmt::join(names, ", "), did_you_mean(name, views)));
}

}  // namespace paceline
