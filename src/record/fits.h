#pragma once
// Fits over the cases of a whole file, which may be of several launches.

#include <array>
#include <vector>

#include "core/hdf5.h"
#include "record/case_record.h"

namespace paceline {

inline constexpr std::array<const char*, 2> fitted_tables = {"fit", "fit_residuals"};

// Throws Hdf5Error.
[[nodiscard]] std::vector<Table> read_fits(const hdf5::File& file);

// `tables` with those fits of earlier launches that they do not replace.
[[nodiscard]] std::vector<Table> with_earlier(std::vector<Table> tables,
                                              const std::vector<Table>& fits);

}  // namespace paceline
