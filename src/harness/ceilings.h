#pragma once
// The device's measured peak rates. Each is measured once, at first use, on all ranks at the same
// time, as the cases run.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/non_copyable.h"
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

// Table "ceilings": a row for every ceiling, rank and repetition.
[[nodiscard]] Table ceilings_table(const std::vector<const Ceiling*>& ceilings);

class Ceilings : NonCopyable {
 public:
  Ceilings(World& world, Device& device) : world_(world), device_(device) {}

  // Collective. GEMMs in this precision, FLOP/s.
  [[nodiscard]] const Ceiling& gemm(const Precision& precision);
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

}  // namespace paceline
