#pragma once
// What the device can do at most, measured once and when it is asked for, by all ranks at once, as
// they will run.

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

  // Whether a figure may be divided by it: its interval is at most 10% of the median wide.
  [[nodiscard]] bool is_sure() const;
};

// "ceilings": a row for every rank and repetition of each.
[[nodiscard]] Table ceilings_table(const std::vector<const Ceiling*>& ceilings);

class Ceilings : NonCopyable {
 public:
  Ceilings(World& world, Device& device) : world_(world), device_(device) {}

  // Collective. GEMMs of this precision, FLOP/s.
  [[nodiscard]] const Ceiling& gemm(const Precision& precision);
  // Collective. Copies within the device's memory, bytes read and written per second.
  [[nodiscard]] const Ceiling& copy();
  // ". Ceiling, GEMM fp32: 51.3TFLOP/s, 95% interval ...": of each that was measured.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] const Ceiling& known(const std::string& name, const std::string& unit,
                                     const std::function<std::vector<double>()>& measure);

  World& world_;
  Device& device_;
  std::map<std::string, Ceiling> known_;
};

}  // namespace paceline
