#pragma once
// What a step's exchanges add to its seconds by phase.

#include <utility>
#include <vector>

#include "measure/sampler.h"
#include "parallel/gradient_sync.h"

namespace paceline {

// Of the phases forward, backward, communication_exposed, ..., step: communication_exposed grows by
// what the compute stream waited for parameters, from one event until the other;
// communication_total, the collectives' own time, comes before step.
void add_communication_times(PhaseSeconds& seconds, const std::vector<Exchange>& exchanges,
                             const std::vector<std::pair<EventPtr, EventPtr>>& waits);

}  // namespace paceline
