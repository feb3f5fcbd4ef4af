#pragma once
// The command line: what was asked for, checked. See README.md and `paceline EXPERIMENT --help`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ops.h"
#include "harness/option_parser.h"
#include "measure/sampler.h"
#include "model/model_config.h"
#include "record/result_file.h"

namespace paceline {

// Options of every experiment that measures.
struct RunOptions {
  std::string device = "auto";
  int threads = 0;  // 0: usable cores / ranks on the node
  std::string output;
  bool resume = false;
  bool force = false;
  bool dry_run = false;
  bool quiet = false;
  bool json = false;
  SamplerConfig sampler;
  std::optional<std::size_t> memory_limit;  // bytes
  double timeout = 120;                     // seconds that ranks wait for each other
  std::int64_t seed = 0;
  bool deterministic = false;
};

enum class Timing : std::uint8_t { phases, step };

// Options of `model` (and of the other experiments that train one); lists are axes.
struct ModelOptions {
  std::vector<std::string> sizes = {"small"};
  ModelConfig custom;  // --d-model, --d-ff, --layers, --heads; 0 where not given
  std::int64_t vocab = 10000;
  std::vector<std::int64_t> contexts = {128};
  std::vector<std::int64_t> batch_sizes = {4};
  std::int64_t global_batch = 0;  // 0: not given
  std::vector<std::string> precisions = {"fp32"};
  std::vector<std::string> attentions = {"naive"};
  std::vector<std::string> fp32_attentions = {"near"};
  std::vector<std::string> executions = {"eager"};
  std::vector<std::string> modes = {"train-step"};
  std::vector<std::int64_t> recompute = {0};  // 0 none, n: every n blocks
  Timing timing = Timing::phases;
  double learning_rate = 1e-3;
  AdamWConfig adamw;
  std::string load_weights;
  std::string tokens;
  std::string dump;
  bool memory_timeline = false;
};

// Options of `ddp` and `zero` beside the model's; lists are axes.
struct DdpOptions {
  std::vector<std::string> syncs = {"bucketed"};
  std::vector<double> bucket_mb = {25};
  std::vector<std::string> comm_dtypes = {"fp32"};
  std::vector<std::string> registrations;  // empty: what the launch can do
  int verify = 0;       // steps of SGD, and of AdamW, that are held against a single process
  std::string predict;  // a file with /fit
  std::vector<std::string> shards = {"zero1"};  // of `zero`, instead of syncs
};

// Options of `collectives`; lists are axes.
struct CollectiveOptions {
  std::vector<std::string> backends;  // empty: those the machine has
  bool backends_given = false;        // by name: one that is missing is an error, not a skipped row
  std::vector<std::string> ops = {"all_reduce"};
  std::vector<std::int64_t> bytes = {1'000'000, 10'000'000, 100'000'000, 1'000'000'000};
  std::vector<std::string> dtypes = {"float32"};
  std::vector<std::string> redops = {"sum"};
  std::vector<std::string> in_place = {"no"};
  std::vector<std::int64_t> ranks;  // empty: the world
  bool ranks_given = false;
  std::vector<std::string> registrations = {"none"};
  std::vector<std::string> cadences = {"barrier"};
  std::vector<std::string> caches = {"warm"};
  bool fit = false;
};

// Options of `attention`; lists are axes.
struct AttentionOptions {
  std::vector<std::string> attentions = {"naive", "flash"};
  std::vector<std::string> fp32_attentions = {"near"};
  std::vector<std::string> flash_kernels = {"newest"};
  std::vector<std::int64_t> head_dims = {64};
  std::vector<std::int64_t> contexts = {1024};
  std::vector<std::int64_t> batch_sizes = {8};
  std::int64_t heads = 1;
  std::vector<std::string> causal = {"no"};
  std::vector<std::string> precisions = {"fp32"};
  std::string launch = "direct";
  std::string cache = "cold";
};

struct Options {
  // "model", "attention", "ddp", "zero", "collectives", "info", "merge", "compare"; "--help",
  // "--version" or "model --help", so that ranks that differ in it disagree
  std::string experiment;
  std::string answer;   // the help or version asked for
  std::string command;  // the whole command line, quoted for a shell
  GivenOptions given;
  RunOptions run;
  ModelOptions model;
  DdpOptions ddp;
  AttentionOptions attention;
  CollectiveOptions collectives;
  bool ceilings = false;           // info
  std::vector<std::string> files;  // merge, compare
  bool any_machine = false;        // compare
};

// Throws UsageError naming the option and what would be right.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace paceline
