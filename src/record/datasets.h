#pragma once
// Tables and samples as self-describing datasets: attributes `unit` and `description`, and
// dimensions with names and scales.

#include <cstdint>
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

// How read_columns() treats groups among the columns, which kernels/ has: an error, or skipped.
enum class Inner : std::uint8_t { refused, left_out };

// All datasets of a group whose members are columns.
[[nodiscard]] std::vector<Column> read_columns(const hdf5::Group& group,
                                               Inner inner = Inner::refused);

// Writes samples/<phase> and samples_warmup/<phase> in a case's group. The scales of their
// dimensions [rank, repetition] are in the case's group, so that all members of samples/ are
// phases.
void write_samples(const hdf5::Group& group, const std::vector<PhaseSamples>& phases);

// Attaches those scales in a copy of such a group; does nothing if the group has none.
void attach_scales(const hdf5::Group& group);

}  // namespace paceline
