#pragma once
// Whether a result file holds text and numbers where the program expects them.

#include "core/hdf5.h"

namespace paceline {

// Throws Hdf5Error if an attribute or a column has numbers in place of the text that
// record/description_table.cpp names, or text in place of numbers; or if a factor is text as an
// attribute and a number in the summary, or the reverse; or if the columns of a table differ in
// length.
void require_described_types(const hdf5::File& file);

}  // namespace paceline
