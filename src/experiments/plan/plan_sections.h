#pragma once
// The sections of a plan, each a derivation with the numbers put in.

#include "experiments/plan/plan_case.h"
#include "experiments/plan/plan_report.h"

namespace paceline {

// All of them, in the order in which they are printed.
[[nodiscard]] std::vector<PlanSection> plan_sections(const PlanCase& plan);

[[nodiscard]] PlanSection layout_section(const PlanCase& plan);
[[nodiscard]] PlanSection state_section(const PlanCase& plan);
// Devices that hold the state alone: of --memory, and of each device of the table, its memory read
// as GB and as GiB.
[[nodiscard]] PlanSection devices_section(const PlanCase& plan);
[[nodiscard]] PlanSection activations_section(const PlanCase& plan);
// The course's (b), of two-matrix blocks.
[[nodiscard]] PlanSection half_sharded_section(const PlanCase& plan);
[[nodiscard]] PlanSection device_memory_section(const PlanCase& plan);
// A device's memory under every layout, as the ranks grow.
[[nodiscard]] PlanSection memory_by_ranks_section(const PlanCase& plan);
[[nodiscard]] PlanSection compute_bound_section(const PlanCase& plan);
// How the published solutions differ, of the course's layout.
[[nodiscard]] PlanSection published_section(const PlanCase& plan);
[[nodiscard]] PlanSection what_if_section(const PlanCase& plan);
[[nodiscard]] PlanSection step_time_section(const PlanCase& plan);
[[nodiscard]] PlanSection scaling_section(const PlanCase& plan);

}  // namespace paceline
