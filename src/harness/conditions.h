#pragma once
// Conditions: what a case is measured under, from the device's sensors and the host's scheduler.

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
  explicit Conditions(const Device& device);  // watches from here on

  // Collective: on rank 0 the table "clocks", with a row for every rank and repetition, and the
  // summary's columns of the measured ones.
  void add_to(CaseRecord& record, World& world, const Samples& samples) const;

 private:
  SensorLog log_;
  HostLoad load_;
};

}  // namespace paceline
