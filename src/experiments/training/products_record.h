#pragma once
#include "core/world.h"
#include "experiments/training/training_step.h"
#include "record/case_record.h"

namespace paceline {

// Collective. Where algorithms of products were timed: a table of rank 0's products, and the
// seconds that the timing took on the slowest rank.
void add_products(CaseRecord& record, World& world, TrainingStep& step);

}  // namespace paceline
