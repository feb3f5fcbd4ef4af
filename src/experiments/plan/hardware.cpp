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

double checked_number(const TomlDocument& file, const TomlEntry& entry) {
  double number = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&entry.value.value)) {
    number = static_cast<double>(*whole);
  } else if (const auto* real = std::get_if<double>(&entry.value.value)) {
    number = *real;
  }
  constexpr double least = 1e-9;
  constexpr double most = 1e9;
  if (number >= least && number <= most) return number;
  throw file.error(entry.value.at,
                   fmt::format("{} must be a number from {} to {}", entry.key, least, most));
}

int devices_in(const TomlDocument& file, const TomlEntry& device, const TomlTable& table) {
  const TomlEntry* entry = table.find("node_devices");
  if (!entry) throw file.error(device.at, device.key + " lacks node_devices");
  const auto* count = std::get_if<std::int64_t>(&entry->value.value);
  constexpr std::int64_t most = 1'000'000;
  if (count && *count >= 1 && *count <= most) return static_cast<int>(*count);
  throw file.error(entry->value.at,
                   fmt::format("node_devices must be an integer from 1 to {}", most));
}

Hardware hardware_of(const TomlDocument& file, const TomlEntry& device) {
  const auto* table = std::get_if<TomlTable>(&device.value.value);
  if (!table) throw file.error(device.at, device.key + " must be a table");
  const auto optional = [&](const char* key, double unit) -> std::optional<double> {
    const TomlEntry* entry = table->find(key);
    if (!entry) return {};
    return checked_number(file, *entry) * unit;
  };
  const auto required = [&](const char* key, double unit) {
    const std::optional<double> value = optional(key, unit);
    if (!value) throw file.error(device.at, fmt::format("{} lacks {}", device.key, key));
    return *value;
  };
  const TomlEntry* source = table->find("source");
  const auto* text = source ? std::get_if<std::string>(&source->value.value) : nullptr;
  if (!text) throw file.error(device.at, device.key + " lacks a source");
  return {.name = device.key,
          .memory_gb = required("memory_GB", 1),
          .half_flops_per_s = optional("half_TFLOP_per_s", tera),
          .tf32_flops_per_s = optional("tf32_TFLOP_per_s", tera),
          .fp32_flops_per_s = optional("fp32_TFLOP_per_s", tera),
          .memory_bytes_per_s = required("memory_GB_per_s", giga),
          .link_bytes_per_s = required("link_GB_per_s", giga),
          .network_bytes_per_s = required("network_GB_per_s", giga),
          .node_devices = devices_in(file, device, *table),
          .source = *text};
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
  if (!file.empty()) all = parse_hardware(read_toml(file));
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

std::vector<Hardware> parse_hardware(const TomlDocument& document) {
  std::vector<Hardware> all;
  for (const TomlEntry& device : document.root.entries) {
    all.push_back(hardware_of(document, device));
  }
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
