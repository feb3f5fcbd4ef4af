#pragma once
// Tables and samples as datasets that say what they are: attributes `unit` and `description`, and
// dimensions with names and scales.

#include <cstdint>
#include <string>
#include <vector>

#include "record/case_record.h"
#include "record/hdf5.h"

namespace paceline {

// A group with its description, where there is one of this path.
[[nodiscard]] hdf5::Group make_described_group(const hdf5::Group& parent, const std::string& path);

// A group of the table's path under `parent`, a dataset for each column. Where a column lacks unit
// or description, it gets that of record/description_table.cpp.
void write_table(const hdf5::Group& parent, Table table);

// What becomes of groups among a group's columns: kernels/ has some.
enum class Inner : std::uint8_t { refused, left_out };

// All datasets of a group whose members are columns.
[[nodiscard]] std::vector<Column> read_columns(const hdf5::Group& group,
                                               Inner inner = Inner::refused);

// samples/<phase> and samples_warmup/<phase> of a case's group, and the scales of their dimensions
// [rank, repetition] beside them: all members of samples/ are phases.
void write_samples(const hdf5::Group& group, const std::vector<PhaseSamples>& phases);

// Attaches those scales to a copy of such a group. What has none stays as it is.
void attach_scales(const hdf5::Group& group);

}  // namespace paceline
