// The command line of `attention`.

#include <algorithm>
#include <map>

#include "core/error.h"
#include "experiments/attention/attention_factors.h"
#include "harness/run_options.h"

namespace paceline {

namespace {

// Every preset pins every factor.
const std::map<std::string, std::vector<std::string>>& attention_presets() {
  static const auto* const presets = new std::map<std::string, std::vector<std::string>>{
      {"pytorch-attention", {"--attention",      "naive,fused",
                             "--head-dim",       "16,32,64,128",
                             "--context",        "256,1024,4096,8192,16384",
                             "--batch-size",     "8",
                             "--heads",          "1",
                             "--causal",         "no",
                             "--precision",      "fp32",
                             "--fp32-attention", "near",
                             "--flash-kernels",  "newest",
                             "--launch",         "direct",
                             "--cache",          "cold",
                             "--warmup",         "5",
                             "--steps",          "100",
                             "--seed",           "0",
                             "--deterministic",  "no"}},
      {"flash-benchmark", {"--attention",      "naive,flash",
                           "--head-dim",       "16,32,64,128",
                           "--context",        "128,256,512,1024,2048,4096,8192,16384,32768,65536",
                           "--batch-size",     "1",
                           "--heads",          "1",
                           "--causal",         "yes",
                           "--precision",      "bf16,fp32",
                           "--fp32-attention", "near",
                           "--flash-kernels",  "newest",
                           "--launch",         "direct",
                           "--cache",          "cold",
                           "--warmup",         "5",
                           "--steps",          "10",
                           "--until-ci",       "2",
                           "--seed",           "0",
                           "--deterministic",  "no"}}};
  return *presets;
}

void add_options(OptionParser& p, AttentionOptions& a) {
  constexpr std::int64_t most = std::int64_t{1} << 24;
  add_attention_options(p, a.attentions, a.fp32_attentions);
  add_flash_kernels_option(p, a.flash_kernels);
  p.integers("--head-dim", a.head_dims, 1, 1 << 14, "elements of a head's row, a,b [64]");
  p.integers("--context", a.contexts, 1, most, "tokens per sequence, a,b [1024]");
  p.integers("--batch-size", a.batch_sizes, 1, 1 << 20, "sequences per rank, a,b [8]");
  p.integer("--heads", a.heads, 1, 1 << 14, "of every sequence [1]");
  p.optional_choices("--causal", a.causal, "yes", {"no", "yes"},
                     "no; yes: a token sees those before it and itself, a,b [no; bare: yes]");
  add_precision_option(p, a.precisions);
  p.choice("--launch", a.launch, {"direct", "graph"},
           "direct; graph: replays of a CUDA graph, so that dispatch is not measured [direct]");
  p.choice("--cache", a.cache, {"cold", "warm"},
           "cold: the last-level cache is flushed before each phase; warm [cold]");
}

}  // namespace

bool parse_attention(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  OptionParser p("attention",
                 "Times attention forward, backward and both, naive, fused and flash, and checks "
                 "every result.");
  AttentionOptions& a = o.attention;
  add_run_options(p, o.run);
  add_seed_options(p, o.run);
  add_options(p, a);
  p.config_file();
  p.presets(attention_presets(), {});
  help = p.help();
  if (!p.parse(arguments, o.given)) return false;
  check_run_options(o.run);
  check_attention_options(p, a.attentions, a.precisions);
  check_flash_kernels_option(p, a.attentions, a.precisions, a.fp32_attentions);
  return true;
}

}  // namespace paceline
