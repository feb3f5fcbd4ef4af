#pragma once
// The sections of a plan, each a derivation with its numbers filled in.

#include "experiments/plan/plan_case.h"
#include "experiments/plan/plan_report.h"

namespace paceline {

// All sections that apply to the plan, in the order in which they are printed.
[[nodiscard]] std::vector<PlanSection> plan_sections(const PlanCase& plan);

[[nodiscard]] PlanSection layout_section(const PlanCase& plan);
[[nodiscard]] PlanSection state_section(const PlanCase& plan);
// The number of devices needed for the state only: with --memory, and for each device of the table,
// whose memory is taken as GB and as GiB.
[[nodiscard]] PlanSection devices_section(const PlanCase& plan);
[[nodiscard]] PlanSection activations_section(const PlanCase& plan);
// The number of devices needed for the state and the activations: --sharded-activations.
[[nodiscard]] PlanSection sharded_activations_section(const PlanCase& plan);
[[nodiscard]] PlanSection device_memory_section(const PlanCase& plan);
// A device's peak memory for each sharding strategy, over the number of ranks.
[[nodiscard]] PlanSection memory_by_ranks_section(const PlanCase& plan);
[[nodiscard]] PlanSection compute_bound_section(const PlanCase& plan);
[[nodiscard]] PlanSection what_if_section(const PlanCase& plan);
[[nodiscard]] PlanSection step_time_section(const PlanCase& plan);
[[nodiscard]] PlanSection scaling_section(const PlanCase& plan);

}  // namespace paceline
