#pragma once
#include "core/world.h"
#include "experiments/training/training_step.h"
#include "record/case_record.h"

namespace paceline {

// Collective. If GEMM algorithms were tuned by timing them: records a table of rank 0's GEMMs, and
// the seconds that tuning took on the slowest rank.
void add_products(CaseRecord& record, World& world, TrainingStep& step);

}  // namespace paceline
