#include "harness/ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/clock.h"
#include "core/error.h"
#include "core/units.h"
#include "harness/gather.h"
#include "measure/sensor_log.h"

namespace paceline {

bool Ceiling::is_reliable() const {
  constexpr double widest = 0.1;
  return rate.ci_high - rate.ci_low <= widest * rate.median;  // false for NaN
}

AttentionArithmetic attention_arithmetic(const OpsConfig& config, DeviceKind device) {
  const bool is_flash = config.attention == AttentionKind::flash;
  // The CPU multiplies in float32, whatever it rounds operands to.
  if (!is_flash || device == DeviceKind::cpu || config.precision.compute != Dtype::f32) {
    return {config.precision};
  }
  constexpr double split_products = 3;
  switch (config.fp32_attention) {
    case Fp32Attention::exact: break;
    case Fp32Attention::bf16x3: return {precision_named("bf16"), split_products};
    case Fp32Attention::tf32: return {precision_named("tf32")};
  }
  return {config.precision};
}

std::vector<const Ceiling*> ProductCeilings::all() const {
  if (&weights == &attention) return {&weights};
  return {&weights, &attention};
}

ProductRates ProductCeilings::rates(double Summary::*at) const {
  return {weights.rate.*at, attention.rate.*at / attention_products};
}

Table ceilings_table(const std::vector<const Ceiling*>& ceilings) {
  std::vector<std::vector<Column>> tables;
  for (const Ceiling* ceiling : ceilings) {
    TableRows rows("ceilings");
    for (const Row& row : ceiling->samples) rows.add(row);
    tables.push_back(rows.take().columns);
  }
  return {"ceilings", concatenate(tables)};
}

const Ceiling& Ceilings::gemm(const Precision& precision) {
  return known(fmt::format("GEMM {}", precision.name), "FLOP/s",
               [&] { return device_.gemm_rates(precision); });
}

ProductCeilings Ceilings::products(const OpsConfig& config) {
  const AttentionArithmetic attention = attention_arithmetic(config, device_.info().kind);
  const Ceiling& weights = gemm(config.precision);
  return {weights, gemm(attention.precision), attention.products};
}

const Ceiling& Ceilings::copy() {
  return known("copy", "bytes/s", [&] { return device_.copy_rates(); });
}

const Ceiling& Ceilings::known(const std::string& name, const std::string& unit,
                               const std::function<std::vector<double>()>& measure) {
  if (const auto it = known_.find(name); it != known_.end()) return it->second;
  world_.barrier();
  const SensorLog log(device_.sensors());
  const double began = host_seconds();
  std::vector<double> rates;
  collectively(world_, [&] { rates = measure(); });
  const auto all_rates = gather_values(world_, rates);
  const auto conditions = gather_values(world_, log.during(began, host_seconds()).values);

  Ceiling& ceiling = known_[name];
  ceiling.unit = unit;
  for (std::size_t rank = 0; rank < all_rates.size(); ++rank) {
    const Summary& mine = ceiling.by_rank.emplace_back(summarize(all_rates[rank]));
    if (rank == 0 || mine.median < ceiling.rate.median) ceiling.rate = mine;
    for (std::size_t i = 0; i < all_rates[rank].size(); ++i) {
      Row row = {{"ceiling", name},
                 {"unit", unit},
                 {"rank", static_cast<std::int64_t>(rank)},
                 {"repetition", static_cast<std::int64_t>(i)},
                 {"rate", all_rates[rank][i]}};
      for (std::size_t s = 0; s < log.sensors().size(); ++s) {
        const auto& [sensor, symbol] = log.sensors()[s];
        const auto readable = [s](const auto& values) { return !std::isnan(values[s]); };
        if (std::none_of(conditions.begin(), conditions.end(), readable)) continue;
        row.push_back({sensor + "_" + symbol, conditions[rank][s]});
      }
      ceiling.samples.push_back(std::move(row));
    }
  }
  return ceiling;
}

std::string Ceilings::text() const {
  std::string text;
  for (const auto& [name, ceiling] : known_) {
    const bool bytes = ceiling.unit == "bytes/s";
    const auto rate = [&](double x) { return bytes ? bytes_text(x) : count_text(x) + "FLOP"; };
    text += fmt::format(". Ceiling, {}: {}/s, 95% interval {}/s to {}/s{}", name,
                        rate(ceiling.rate.median), rate(ceiling.rate.ci_low),
                        rate(ceiling.rate.ci_high),
                        ceiling.is_reliable() ? "" : ", too wide for a ratio");
  }
  return text;
}

Peak peak_of(const Device& device, const OpsConfig& config, double given) {
  constexpr double tera = 1e12;
  if (given > 0) return {{given * tera, given * tera}, "--peak-tflops"};
  const DeviceInfo info = device.info();
  const AttentionArithmetic attention = attention_arithmetic(config, info.kind);
  const auto weights_peak = device.datasheet_peak(config.precision);
  const auto attention_peak = device.datasheet_peak(attention.precision);
  if (!weights_peak || !attention_peak) return {{std::nan(""), std::nan("")}, ""};
  return {{*weights_peak, *attention_peak / attention.products}, info.name + " data sheet"};
}

void require_one_arithmetic(const OpsConfig& config, const Precision& precision,
                            DeviceKind device) {
  const AttentionArithmetic attention = attention_arithmetic(config, device);
  if (config.precision.name == precision.name && attention.precision.name == precision.name) return;
  throw UsageError(
      "--peak-tflops: is the rate of one arithmetic, but the matrix products here have several; "
      "give one --precision, with flash attention in fp32 on a GPU also --fp32-attention exact");
}

void warn_above_ceiling(CaseRecord& record, double share) {
  if (!(share > 1)) return;
  record.warnings.push_back(
      {warning::above_ceiling,
       fmt::format("matrix products at {:.1f}% of their ceiling", 100 * share)});
}

}  // namespace paceline
