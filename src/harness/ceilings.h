#pragma once
// The device's measured peak rates. Each is measured once, at first use, on all ranks at the same
// time, as the cases run.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/ops.h"
#include "core/precision.h"
#include "core/world.h"
#include "measure/statistics.h"
#include "record/case_record.h"

namespace paceline {

// On rank 0; empty elsewhere.
struct Ceiling {
  std::string unit;  // "FLOP/s" or "bytes/s"
  Summary rate;      // of the slowest rank
  std::vector<Summary> by_rank;
  std::vector<Row> samples;  // of all ranks

  // Whether ratios to it are reported: its interval is at most 10% of the median wide.
  [[nodiscard]] bool is_reliable() const;
};

// Rates that bound a case's matrix products, FLOP/s: of those with weights, and of attention's own.
struct ProductRates {
  double weights = 0;
  double attention = 0;

  // The rate of `flops`, of which `attention_flops` are attention's, if each part runs at its own.
  [[nodiscard]] double of(double flops, double attention_flops) const {
    return flops / ((flops - attention_flops) / weights + attention_flops / attention);
  }
};

// The precision of the GEMMs that attention runs as, and how many of them make one of its products.
struct AttentionArithmetic {
  Precision precision;
  double products = 1;
};
[[nodiscard]] AttentionArithmetic attention_arithmetic(const OpsConfig& config, DeviceKind device);

// The measured ceilings of a case's matrix products.
struct ProductCeilings {
  const Ceiling& weights;
  const Ceiling& attention;  // the same as `weights` if the arithmetic is
  double attention_products = 1;

  [[nodiscard]] std::vector<const Ceiling*> all() const;
  // At the medians, or at an end of the intervals.
  [[nodiscard]] ProductRates rates(double Summary::*at = &Summary::median) const;
  [[nodiscard]] bool is_reliable() const {
    return weights.is_reliable() && attention.is_reliable();
  }
};

// Table "ceilings": a row for every ceiling, rank and repetition.
[[nodiscard]] Table ceilings_table(const std::vector<const Ceiling*>& ceilings);

class Ceilings : NonCopyable {
 public:
  Ceilings(World& world, Device& device) : world_(world), device_(device) {}

  // Collective. GEMMs in this precision, FLOP/s.
  [[nodiscard]] const Ceiling& gemm(const Precision& precision);
  // Collective. GEMMs in the arithmetic of a case's products.
  [[nodiscard]] ProductCeilings products(const OpsConfig& config);
  // Collective. Copies within the device's memory, bytes read and written per second.
  [[nodiscard]] const Ceiling& copy();
  // ". Ceiling, GEMM fp32: 51.3TFLOP/s, 95% interval ...", for each ceiling measured so far.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] const Ceiling& known(const std::string& name, const std::string& unit,
                                     const std::function<std::vector<double>()>& measure);

  World& world_;
  Device& device_;
  std::map<std::string, Ceiling> known_;
};

// The peak rates of the data sheet, or `given` TFLOP/s (0: not given). NaN and no source if neither
// states them.
struct Peak {
  ProductRates rates;
  std::string source;  // "NVIDIA H200 data sheet", "--peak-tflops"
};
[[nodiscard]] Peak peak_of(const Device& device, const OpsConfig& config, double given);

// Throws UsageError if a case has matrix products in another arithmetic than GEMMs of `precision`:
// --peak-tflops states one rate.
void require_one_arithmetic(const OpsConfig& config, const Precision& precision, DeviceKind device);

// Adds a warning if a case reached more than the rates that bound it. share: NaN if none is known.
void warn_above_ceiling(CaseRecord& record, double share);

}  // namespace paceline
