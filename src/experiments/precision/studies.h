#pragma once
// The studies: each records what it computes for one case.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/device.h"
#include "experiments/precision/precision.h"
#include "record/case_record.h"

namespace paceline {

// Sums `count` equal addends; records the sum beside the exact one and Higham's bound.
void add_accumulation(CaseRecord& record, const PrecisionCase& c);

// Tensors of a training step by name, "logits", or by an operation's scope and the index of its
// tensor, "block 0/ffn/rms_norm 1".
using DtypeLog = std::map<std::string, std::set<Dtype>>;
// Runs a training step of the model. Throws OutOfMemory.
[[nodiscard]] DtypeLog logged_step(Device& device, const PrecisionCase& c, std::uint64_t seed);
// Runs a training step of the model and records the dtype of every component. Sets the status
// `mismatch` if one differs from PyTorch's autocast without a note. Throws OutOfMemory.
void add_dtypes(CaseRecord& record, Device& device, const PrecisionCase& c, std::uint64_t seed);
// Table "dtypes" from the summary's rows of this study: one row per model and component, one column
// per precision. Empty without such rows.
[[nodiscard]] std::vector<Table> dtypes_by_precision(const std::vector<Row>& summary);

// Records the errors of norms in a half type, relative to float64: from rounding the input, with
// float32 statistics, as under autocast, and with every operation rounded. A relative error is the
// Euclidean norm of the difference over that of the reference; infinite if a result is not finite.
void add_norm_errors(CaseRecord& record, const PrecisionCase& c, std::uint64_t seed);

}  // namespace paceline
