#include "experiments/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/error.h"
#include "core/units.h"
#include "experiments/launch.h"
#include "experiments/option_parser.h"
#include "experiments/run_options.h"
#include "record/environment.h"

namespace paceline {

namespace {

constexpr std::int64_t most_batch = 1 << 20;
constexpr std::int64_t most_context = 1 << 24;

constexpr std::string_view overview =
    R"(paceline measures how language models train, on every rank of an MPI launch.

usage: paceline EXPERIMENT [options]        mpirun -np N paceline EXPERIMENT [options]

  model      end-to-end steps of a Transformer: forward, backward, AdamW
  collectives  all_reduce and others over ranks, sizes and dtypes
  info       ranks, devices and library versions; --ceilings measures what they can do
  merge      rebuilds a result file from its finished cases after a crash
  compare    case by case, is B faster or slower than A?

paceline EXPERIMENT --help lists the options of one. Options of the kind "a,b" are axes: the cases
are the product of all of them.
)";

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_@%+=:,./-") == std::string::npos;
  if (plain) return word;
  std::string q = "'";
  for (const char c : word) q += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return q + "'";
}

void add_model_options(OptionParser& p, ModelOptions& m) {
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
  p.custom("--precision", "fp32 bf16 fp16 (tf32 needs a GPU), a,b [fp32]",
           [&m](const std::vector<std::string>& values) {
             m.precisions.clear();
             for (const std::string& v : values) {
               if (v == "fp64")
                 throw UsageError("fp64 is the tests' own; choose fp32, bf16 or fp16");
               m.precisions.emplace_back(precision_named(v).name);
             }
           });
  p.choices("--attention", m.attentions, {"naive"}, "naive [naive]", {"fused", "flash"});
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
           "phases: synchronise after each phase; step: once per step, phases from events [phases]",
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
}

// name -> option, value, option, value ...: every preset pins every factor.
const std::map<std::string, std::vector<std::string>>& model_presets() {
  static const auto* const presets = [] {
    const std::vector<std::string> base = {"--size",         "small,medium,large,xl,2.7b",
                                           "--vocab",        "10000",
                                           "--context",      "128",
                                           "--batch-size",   "4",
                                           "--precision",    "fp32",
                                           "--attention",    "naive",
                                           "--exec",         "eager",
                                           "--mode",         "train-step",
                                           "--recompute",    "none",
                                           "--timing",       "phases",
                                           "--lr",           "0.001",
                                           "--beta1",        "0.9",
                                           "--beta2",        "0.999",
                                           "--eps",          "1e-8",
                                           "--weight-decay", "0.01",
                                           "--warmup",       "5",
                                           "--steps",        "10",
                                           "--seed",         "0"};
    const auto with = [&base](const std::string& name, const std::string& value) {
      std::vector<std::string> v = base;
      *(std::find(v.begin(), v.end(), name) + 1) = value;
      return v;
    };
    return new std::map<std::string, std::vector<std::string>>{
        {"sizes", with("--context", "128,256,512,1024")},
        {"warmup", base},
        {"precision", with("--precision", "fp32,bf16")}};
  }();
  return *presets;
}

void check_together(const OptionParser& p, const Options& o) {
  const ModelOptions& m = o.model;
  check_run_options(o.run);
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

bool parse_model(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  OptionParser p("model",
                 "Times steps of a Transformer with random weights on every rank: forward, "
                 "backward, optimizer.");
  add_run_options(p, o.run);
  p.integer("--seed", o.run.seed, 0, std::int64_t{1} << 62U, "of weights and tokens [0]");
  p.flag("--deterministic", o.run.deterministic,
         "the same bits from run to run (the CPU device always is)");
  add_model_options(p, o.model);
  p.config_file();
  p.presets(model_presets(), {{"--global-batch", "--batch-size"}, {"--d-model", "--size"}});
  p.not_built({"--fp32-attention", "--memory-timeline", "--profile"});
  help = p.help();
  if (!p.parse(arguments)) return false;
  if (p.given("--d-model")) o.model.sizes = {"custom"};
  check_together(p, o);
  return true;
}

bool parse_info(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  OptionParser p("info", "Prints ranks, devices and library versions.");
  p.choice("--device", o.run.device, {"auto", "cpu", "cuda"}, "auto, cpu or cuda [auto]");
  p.integer("--threads", o.run.threads, 1, 4096,
            "CPU threads per rank [usable cores / ranks on the node]");
  add_timeout(p, o.run);
  p.flag("--ceilings", o.ceilings, "measure them: GEMM per precision, copy bandwidth");
  help = p.help();
  return p.parse(arguments);
}

bool parse_files(Options& o, const std::vector<std::string>& arguments, std::string& help) {
  const bool merge = o.experiment == "merge";
  OptionParser p(o.experiment, merge ? "Rebuilds F.h5 from F.h5.cases/ after a crash."
                                     : "Says of every case in both files whether the second is "
                                       "faster or slower; exits 1 on a regression.");
  p.files(o.files, merge ? 1 : 2, merge ? "the result file to rebuild" : "A.h5 B.h5");
  if (!merge) p.flag("--any-machine", o.any_machine, "compare runs of unlike machines too");
  help = p.help();
  return p.parse(arguments);
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) throw UsageError("no experiment; see paceline --help");
  Options o;
  o.experiment = arguments.front();
  for (int i = 0; i < argc; ++i) o.command += (i > 0 ? " " : "") + quoted(argv[i]);
  if (o.experiment == "--help" || o.experiment == "-h" || o.experiment == "--version") {
    const bool version = o.experiment == "--version";
    if (speaks_for_launch()) {
      fmt::print("{}", version ? "paceline " + software_version() + "\n" : std::string(overview));
    }
    return std::nullopt;
  }
  using Parse = bool (*)(Options&, const std::vector<std::string>&, std::string&);
  const std::map<std::string, Parse> experiments = {{"model", parse_model},
                                                    {"collectives", parse_collectives},
                                                    {"info", parse_info},
                                                    {"merge", parse_files},
                                                    {"compare", parse_files}};
  const auto it = experiments.find(o.experiment);
  if (it == experiments.end()) {
    for (const char* later : {"attention", "ddp", "zero", "precision", "plan"}) {
      if (o.experiment == later) throw UsageError("'" + o.experiment + "' is not built yet");
    }
    throw UsageError("'" + o.experiment +
                     "' is no experiment; choose model, collectives, info, merge or compare");
  }
  std::string help;
  if (!it->second(o, {arguments.begin() + 1, arguments.end()}, help)) {
    if (speaks_for_launch()) fmt::print("{}", help);
    return std::nullopt;
  }
  return o;
}

}  // namespace paceline
