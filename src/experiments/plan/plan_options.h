#pragma once
// The options of `paceline plan` and the plan that they define.

#include <string>
#include <vector>

#include "experiments/plan/plan_case.h"
#include "harness/option_parser.h"

namespace paceline {

class PlanOptions {
 public:
  PlanOptions();

  void declare(OptionParser& p);
  // Throws UsageError for options that cannot be combined.
  void check(const OptionParser& p);
  // Throws UsageError for an invalid layout, or for hardware that is unknown.
  [[nodiscard]] PlanCase plan() const;

 private:
  [[nodiscard]] Hardware hardware() const;
  void set_layout(PlanCase& plan) const;

  FactorOptions<TrainingCase> factors_;
  BlockKind block_kind_ = BlockKind::transformer;
  std::int64_t ranks_ = 0;  // 0: not given
  std::int64_t fsdp_ = 0;   // 0: not given
  std::int64_t tensor_ = 1;
  MeshAxes axes_;
  std::string hardware_name_;  // empty: not given
  std::string hardware_file_;  // empty: not given
  ByteCount memory_;           // 0: the table's
  std::string memory_text_;    // --memory as given, with its unit
  double peak_tflops_ = 0;     // 0: the table's
  ByteCount link_bandwidth_;   // 0: the table's
  double sharded_activations_ = 0;
  double utilization_ = 1;
  double latency_us_ = 10;
};

}  // namespace paceline
