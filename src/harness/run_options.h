#pragma once
// What the options of several experiments share, and the parts of parse_options() with files of
// their own.

#include <map>
#include <string>
#include <vector>

#include "harness/option_parser.h"
#include "harness/options.h"

namespace paceline {

void add_run_options(OptionParser& p, RunOptions& run);
void add_timeout(OptionParser& p, RunOptions& run);
// --seed and --deterministic.
void add_seed_options(OptionParser& p, RunOptions& run);
void add_precision_option(OptionParser& p, std::vector<std::string>& precisions);
// Throws UsageError for options that cannot stand together.
void check_run_options(const RunOptions& run);

// Every factor of a case of `model`, with its value: a preset starts from it, so that no default
// changes what it measures.
[[nodiscard]] std::vector<std::string> pinned_model_options();

// Of every experiment that trains a model.
void add_model_options(OptionParser& p, Options& o);
// Takes over what depends on several options. Throws UsageError for what cannot stand together.
void finish_model_options(const OptionParser& p, Options& o);
// An option that, when given, takes the place of another of a preset.
[[nodiscard]] std::map<std::string, std::string> preset_exclusions();
[[nodiscard]] std::vector<std::string> model_options_not_built();

// Of every experiment that exchanges gradients: bucket size, dtype, --verify of so many steps
// unless named.
void add_exchange_options(OptionParser& p, DdpOptions& d, int verify_steps);
// Throws UsageError for what cannot stand together.
void check_exchange_options(const Options& o);
// The course's benchmark: xl, context 128, global batch 4.
[[nodiscard]] std::vector<std::string> course_preset();

// False when --help was asked for. Throws UsageError.
[[nodiscard]] bool parse_model(Options& o, const std::vector<std::string>& arguments,
                               std::string& help);
[[nodiscard]] bool parse_attention(Options& o, const std::vector<std::string>& arguments,
                                   std::string& help);
[[nodiscard]] bool parse_ddp(Options& o, const std::vector<std::string>& arguments,
                             std::string& help);
[[nodiscard]] bool parse_zero(Options& o, const std::vector<std::string>& arguments,
                              std::string& help);
[[nodiscard]] bool parse_collectives(Options& o, const std::vector<std::string>& arguments,
                                     std::string& help);

}  // namespace paceline
