#pragma once
// Conditions: clocks, power, temperature and involuntary context switches while a case is measured.

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/world.h"
#include "harness/host_load.h"
#include "measure/sampler.h"
#include "measure/sensor_log.h"
#include "record/case_record.h"

namespace paceline {

class Conditions : NonCopyable {
 public:
  explicit Conditions(const Device& device);  // starts reading the sensors

  // Collective: adds on rank 0 the table "clocks", with a row for every rank and repetition, and
  // summary columns over the measured repetitions.
  void add_to(CaseRecord& record, World& world, const Samples& samples) const;

 private:
  SensorLog log_;
  HostLoad load_;
};

}  // namespace paceline
