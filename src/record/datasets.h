#pragma once
// Tables and samples as self-describing datasets: attributes `unit` and `description`, and
// dimensions with names and scales.

#include <string>
#include <vector>

#include "core/hdf5.h"
#include "record/case_record.h"

namespace paceline {

// Makes a group, with the description of its path if there is one.
[[nodiscard]] hdf5::Group make_described_group(const hdf5::Group& parent, const std::string& path);

// Writes a group at the table's path under `parent`, with a dataset for each column. Missing units
// and descriptions come from record/description_table.cpp.
void write_table(const hdf5::Group& parent, Table table);

// The columns of the table at `path` under `parent`, without those of groups in it. Throws
// Hdf5Error unless they have one length.
[[nodiscard]] std::vector<Column> read_columns(const hdf5::Group& parent, const std::string& path);

// Writes samples/<phase> and samples_warmup/<phase> in a case's group. The scales of their
// dimensions [rank, repetition] are in the case's group, so that all members of samples/ are
// phases.
void write_samples(const hdf5::Group& group, const std::vector<PhaseSamples>& phases);

// Attaches those scales in a copy of such a group; does nothing if the group has none.
void attach_scales(const hdf5::Group& group);

}  // namespace paceline
