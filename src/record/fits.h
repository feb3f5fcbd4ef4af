#pragma once
// Fits over the cases of a whole file, which may be of several launches.

#include <array>
#include <filesystem>
#include <vector>

#include "record/case_record.h"

namespace paceline {

inline constexpr std::array<const char*, 2> fitted_tables = {"fit", "fit_residuals"};

// Throws Hdf5Error.
[[nodiscard]] std::vector<Table> read_fits(const std::filesystem::path& path);

// `tables` with those fits of earlier launches that they do not replace.
[[nodiscard]] std::vector<Table> with_earlier(std::vector<Table> tables,
                                              const std::vector<Table>& fits);

}  // namespace paceline
