#pragma once
// What the options of several experiments share, and the parts of parse_options() with files of
// their own.

#include <string>
#include <vector>

#include "experiments/option_parser.h"
#include "experiments/options.h"

namespace paceline {

void add_run_options(OptionParser& p, RunOptions& run);
void add_timeout(OptionParser& p, RunOptions& run);
// Throws UsageError for options that cannot stand together.
void check_run_options(const RunOptions& run);

// False when --help was asked for. Throws UsageError.
[[nodiscard]] bool parse_collectives(Options& o, const std::vector<std::string>& arguments,
                                     std::string& help);

}  // namespace paceline
