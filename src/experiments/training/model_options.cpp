// The command line of `model`, and what the other experiments that train share with it.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "experiments/attention/attention_factors.h"
#include "harness/run_options.h"

namespace paceline {

std::vector<std::string> pinned_model_options() {
  return {"--size",
          "small,medium,large,xl,2.7b",
          "--vocab",
          "10000",
          "--context",
          "128",
          "--batch-size",
          "4",
          "--precision",
          "fp32",
          "--attention",
          "naive",
          "--fp32-attention",
          "near",
          "--exec",
          "eager",
          "--mode",
          "train-step",
          "--recompute",
          "none",
          "--timing",
          "phases",
          "--memory-timeline",
          "no",
          "--lr",
          "0.001",
          "--beta1",
          "0.9",
          "--beta2",
          "0.999",
          "--eps",
          "1e-8",
          "--weight-decay",
          "0.01",
          "--warmup",
          "5",
          "--steps",
          "10",
          "--seed",
          "0"};
}

namespace {

constexpr std::int64_t most_batch = 1 << 20;
constexpr std::int64_t most_context = 1 << 24;

const std::map<std::string, std::vector<std::string>>& model_presets() {
  static const auto* const presets = [] {
    const std::vector<std::string> base = pinned_model_options();
    const auto with = [&base](const std::map<std::string, std::string>& changes) {
      std::vector<std::string> v = base;
      for (const auto& [name, value] : changes) *(std::find(v.begin(), v.end(), name) + 1) = value;
      return v;
    };
    return new std::map<std::string, std::vector<std::string>>{
        {"sizes", with({{"--context", "128,256,512,1024"}})},
        {"warmup", base},
        {"precision", with({{"--precision", "fp32,bf16"}})},
        {"memory", with({{"--size", "2.7b"},
                         {"--context", "128,256,512"},
                         {"--mode", "inference,forward,train-step"},
                         {"--precision", "fp32,bf16"},
                         {"--memory-timeline", "yes"}})}};
  }();
  return *presets;
}

}  // namespace

void add_model_options(OptionParser& p, Options& o) {
  ModelOptions& m = o.model;
  add_seed_options(p, o.run);
  p.choices("--size", m.sizes, model_names(), "tiny small medium large xl 2.7b, a,b [small]");
  p.integer("--d-model", m.custom.d_model, 1, 1 << 20, "instead of --size, with the next three");
  p.integer("--d-ff", m.custom.d_ff, 1, 1 << 22, "width of the feed-forward layers");
  p.integer("--layers", m.custom.layers, 1, 4096, "blocks");
  p.integer("--heads", m.custom.heads, 1, 1 << 14, "attention heads; must divide --d-model");
  p.integer("--vocab", m.vocab, 2, 1 << 24, "vocabulary [10000]");
  p.integers("--context", m.contexts, 1, most_context, "tokens per sequence, a,b [128]");
  p.integers("--batch-size", m.batch_sizes, 1, most_batch, "sequences per rank, a,b [4]");
  p.integer("--global-batch", m.global_batch, 1, most_batch,
            "sequences over all ranks, instead of --batch-size; ranks must divide it");
  add_precision_option(p, m.precisions);
  add_attention_options(p, m.attentions, m.fp32_attentions);
  p.choices("--exec", m.executions, {"eager"}, "eager [eager]", {"compiled"});
  p.choices("--mode", m.modes, {"inference", "forward", "forward-backward", "train-step"},
            "inference (frees activations), forward (keeps what backward needs), "
            "forward-backward, train-step, a,b [train-step]");
  p.custom("--recompute", "none, block or K: keep only the input of every K blocks, a,b [none]",
           [&m](const std::vector<std::string>& values) {
             m.recompute.clear();
             for (const std::string& v : values) {
               const bool number = !v.empty() && v.size() < 5 &&
                                   v.find_first_not_of("0123456789") == std::string::npos;
               if (v == "none") {
                 m.recompute.push_back(0);
               } else if (v == "block") {
                 m.recompute.push_back(1);
               } else if (number && std::stoi(v) > 0) {
                 m.recompute.push_back(std::stoi(v));
               } else {
                 throw UsageError(
                     fmt::format("'{}' is unknown; use none, block or a number of "
                                 "blocks from 1 to 9999",
                                 v));
               }
             }
           });
  p.custom("--timing",
           "phases: synchronise after each phase; step: once per step, phases from events [model "
           "phases, ddp step]",
           [&m](const std::vector<std::string>& values) {
             const bool phases = values.size() == 1 && values.front() == "phases";
             const bool step = values.size() == 1 && values.front() == "step";
             if (!phases && !step) throw UsageError("is phases or step");
             m.timing = phases ? Timing::phases : Timing::step;
           });
  p.real("--lr", m.learning_rate, 0, 1e6, "AdamW, in torch.optim.AdamW's form [0.001]");
  p.real("--beta1", m.adamw.beta1, 0, 0.999999, "[0.9]");
  p.real("--beta2", m.adamw.beta2, 0, 0.99999999, "[0.999]");
  p.real("--eps", m.adamw.eps, 0, 1, "[1e-8]");
  p.real("--weight-decay", m.adamw.weight_decay, 0, 1e6, "[0.01]");
  p.text("--load-weights", m.load_weights,
         "HDF5 with datasets by the reference's state-dict names, at the root or under weights/");
  p.text("--tokens", m.tokens,
         "HDF5 with tokens (and targets) [B, T], or a flat file of uint16 [random]");
  p.text("--dump", m.dump,
         "HDF5 that gets logits, loss and gradients of the first step and the last weights");
  p.flag("--memory-timeline", m.memory_timeline,
         "record every allocation and release of one step more, after the measured ones");
}

void finish_model_options(const OptionParser& p, Options& o) {
  ModelOptions& m = o.model;
  if (p.given("--d-model")) m.sizes = {"custom"};
  check_run_options(o.run);
  check_attention_options(p, m.attentions, m.precisions);
  if (p.given("--global-batch") && p.given("--batch-size")) {
    throw UsageError("--global-batch: replaces --batch-size; give one of them");
  }
  const int dims =
      p.given("--d-model") + p.given("--d-ff") + p.given("--layers") + p.given("--heads");
  if (dims > 0 && p.given("--size")) {
    throw UsageError("--size: cannot stand beside --d-model, --d-ff, --layers, --heads");
  }
  if (dims > 0 && dims < 4) {
    throw UsageError("--d-model: needs --d-ff, --layers and --heads beside it");
  }
  const bool tf32 = std::count(m.precisions.begin(), m.precisions.end(), "tf32") > 0;
  if (tf32 && o.run.device == "cpu") {
    throw UsageError("--precision: tf32 needs a GPU; use fp32, bf16 or fp16 on the CPU");
  }
}

std::map<std::string, std::string> preset_exclusions() {
  return {{"--global-batch", "--batch-size"}, {"--d-model", "--size"}};
}

std::vector<std::string> model_options_not_built() { return {"--profile"}; }

bool parse_model(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  OptionParser p("model",
                 "Times steps of a Transformer with random weights on every rank: forward, "
                 "backward, optimizer.");
  add_run_options(p, o.run);
  add_model_options(p, o);
  p.config_file();
  p.presets(model_presets(), preset_exclusions());
  p.not_built(model_options_not_built());
  help = p.help();
  if (!p.parse(arguments, o.given)) return false;
  finish_model_options(p, o);
  return true;
}

}  // namespace paceline
