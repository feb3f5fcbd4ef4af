// `paceline plan`: memory, communication and time of a model and a layout, from closed forms.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <memory>

#include "core/enum_names.h"
#include "core/screen.h"
#include "experiments/plan/plan_case.h"
#include "experiments/plan/plan_report.h"
#include "harness/command.h"

namespace paceline {

namespace {

constexpr std::int64_t max_ranks = 1 << 20;

// The factors of the training experiments that a plan depends on, each with a single value.
Factors<TrainingCase> plan_factors() {
  constexpr std::array names = {
      "size",  "context",   "batch_size", "precision", "attention",  "fp32_attention", "exec",
      "mode",  "optimizer", "recompute",  "d_model",   "d_ff",       "layers",         "heads",
      "vocab", "sync",      "shard",      "bucket_mb", "comm_dtype", "prefetch",       "reshard"};
  Factors<TrainingCase> factors = training_factors(TrainingKind::zero);
  for (const Factor<TrainingCase>& f : training_factors(TrainingKind::ddp)) {
    if (f.name == "sync") factors.push_back(f);
  }
  std::erase_if(factors, [&](const Factor<TrainingCase>& f) {
    return std::find(names.begin(), names.end(), f.name) == names.end();
  });
  for (Factor<TrainingCase>& f : factors) {
    f.use = FactorUse::setting;
    if (f.name == "sync") f.by_default("").described_default("bucketed, or by --shard");
    if (f.name == "shard") f.by_default("none");
    if (f.name == "attention") f.by_default("flash");
  }
  return factors;
}

TrainingCase plan_defaults() {
  TrainingCase c = training_defaults(TrainingKind::zero);
  c.device = DeviceKind::cuda;
  c.ranks = 1;
  c.strategy = Strategy::bucketed;
  return c;
}

const Presets& plan_presets() {
  static const Presets presets = {
      {"xxl",
       "--blocks two-matrix --d-model 16384 --d-ff 53248 --layers 126 --heads 128 --vocab 10000 "
       "--context 2048 --batch-size 1 --precision bf16 --attention flash --fp32-attention bf16x3 "
       "--exec eager --mode train-step --optimizer serial --recompute none --shard fsdp --fsdp 16 "
       "--tp 4 --mesh-axes 2,1 --comm-dtype bf16 --bucket-mb 25 --prefetch 1 --reshard yes "
       "--hardware tpu-v5p --sharded-activations 0.5 --utilization 1 --latency 10"}};
  return presets;
}

MeshAxes read_axes(const OptionParser::Texts& texts) {
  const OptionParser::Texts parts = OptionParser::split(texts);
  constexpr std::int64_t most = 8;
  if (parts.size() != 2) throw UsageError("takes two numbers: MX,MY");
  return {.data = static_cast<int>(parse_integer(parts[0], 1, most)),
          .tensor = static_cast<int>(parse_integer(parts[1], 1, most))};
}

class PlanCommand final : public Command {
 public:
  [[nodiscard]] bool measures() const override { return false; }
  void declare(OptionParser& p) override {
    factors_.declare(p);
    p.value("--blocks", given_.block_kind,
            "transformer: the program's model; two-matrix: the course's, with blocks of matrices "
            "[D, F] and [F, D] only (transformer two-matrix) [transformer]");
    p.value("--ranks", ranks_, "total ranks: data-parallel ranks x --tp [--fsdp x --tp]",
            {1, max_ranks});
    p.value("--fsdp", fsdp_,
            "data-parallel ranks, with parameters sharded over them (implies --shard fsdp)",
            {1, max_ranks});
    p.value("--tp", given_.tensor, "tensor-parallel ranks; must divide heads, d_model and d_ff [1]",
            {1, 1 << 14});
    p.option("--mesh-axes",
             "mesh axes, each with its own links, of data-parallel and of tensor-parallel "
             "collectives (MX,MY) [1,1]",
             [this](const OptionParser::Texts& t) { given_.axes = read_axes(t); },
             {.type = ValueType::integer, .list = true, .default_value = "1,1"});
    p.value(
        "--hardware", hardware_name_,
        "device of the table (h100 h200 a100 b200 tpu-v5p), also by its name in result files; any "
        "name, such as cpu, with --memory, --peak-tflops and --link-bandwidth [h100]");
    p.value("--hardware-file", hardware_file_,
            "TOML file of further devices, which override those of the table");
    p.option("--memory", "memory of a device, instead of the table's",
             [this](const OptionParser::Texts& t) {
               memory_ = FactorValue<ByteCount>::read(t.front(), {});
               const bool has_unit =
                   std::isalpha(static_cast<unsigned char>(t.front().back())) != 0;
               given_.memory_text = t.front() + (has_unit ? "" : " bytes");
             },
             {.type = ValueType::size});
    p.value("--peak-tflops", peak_tflops_, "dense TFLOP/s of a device, instead of the table's",
            {1e-6, 1e9});
    p.value("--link-bandwidth", link_bandwidth_,
            "bytes/s that a device sends along one mesh axis, instead of the table's");
    p.value("--utilization", utilization_, "fraction of the peak that matrix products reach [1]",
            {0.001, 1});
    p.value("--latency", latency_us_, "latency of a collective of two ranks, in microseconds [10]",
            {0, 1e6});
    p.value(
        "--sharded-activations", given_.sharded_activations,
        "fraction of the activations that is sharded over the devices with the state: the least "
        "number of devices [0]",
        {0, 1});
    p.presets(plan_presets(), {{"--shard", "--fsdp"}});
    const std::vector<std::string_view> names = question_names();
    p.option("--ask",
             fmt::format("print only the answers to these questions, one line each ({}, a,b)",
                         joined_names(names)),
             [this, names](const OptionParser::Texts& texts) {
               questions_ = OptionParser::split(texts);
               for (const std::string& text : questions_) (void)index_of_name(names, text);
             },
             {.type = ValueType::name, .list = true});
    p.value("--run-tokens", given_.run_tokens, "tokens of the training run of --ask run",
            {1, 1e18});
    p.value("--rates", rates_,
            "a file of paceline-analysis rates: its rates and links replace the data sheet, "
            "--peak-tflops, --utilization, --link-bandwidth and --latency");
    p.flag("--json", json_, "one line of JSON per section, table row or answer");
  }
  void check(const OptionParser& p) override {
    factors_.finish(p);
    if (p.by_name("--fsdp") && p.by_name("--shard")) {
      throw UsageError("--fsdp: implies --shard fsdp; leave --shard out");
    }
    if (p.given("--sync") && (p.given("--fsdp") || p.given("--shard"))) {
      throw UsageError("--sync: cannot be combined with --shard or --fsdp; leave one of them out");
    }
    for (const char* option : {"--heads", "--vocab", "--attention", "--exec"}) {
      if (given_.block_kind == BlockKind::two_matrix && p.by_name(option)) {
        throw UsageError(fmt::format("{}: goes with --blocks transformer; leave it out", option));
      }
    }
    std::vector<std::string> dimensions = {"--d-model", "--d-ff", "--layers"};
    if (given_.block_kind == BlockKind::transformer) dimensions.emplace_back("--heads");
    read_custom_size(p, factors_, dimensions);
    for (const auto& [option, value] : {std::pair("--memory", memory_.bytes),
                                        std::pair("--link-bandwidth", link_bandwidth_.bytes)}) {
      if (p.given(option) && value == 0) {
        throw UsageError(fmt::format("{}: must be above 0; leave it out for the table's", option));
      }
    }
    if (given_.run_tokens > 0 && std::ranges::count(questions_, "run") == 0) {
      throw UsageError("--run-tokens: goes with --ask run");
    }
  }
  [[nodiscard]] ExitCode run(Launch* /*launch*/) override {
    const PlanCase planned = plan();
    if (rates_.empty()) {
      print(planned);
      return ExitCode::done;
    }
    const RatesFile file = read_rates(rates_);
    print(calibrated(planned, file));
    const std::vector<std::string> what = extrapolations(planned, file);
    if (!what.empty()) {
      print({{.name = "extrapolated",
              .title = "Extrapolated, not measured in any file",
              .note = fmt::format("{}", fmt::join(what, json_ ? "; " : "\n"))}});
    }
    return ExitCode::done;
  }

 private:
  // Throws UsageError for an invalid layout, or for hardware that is unknown.
  [[nodiscard]] PlanCase plan() const {
    PlanCase plan = given_;
    const std::vector<TrainingCase> cases = factors_.cases([this](TrainingCase& c) {
      if (fsdp_ > 0) c.strategy = Strategy::fsdp;
      return true;
    });
    plan.step = cases.front();
    if (plan.step.size != ModelSize::custom) {
      const ModelConfig model = model_of(plan.step.size);
      plan.step.d_model = model.d_model;
      plan.step.d_ff = model.d_ff;
      plan.step.layers = model.layers;
      plan.step.heads = model.heads;
    }
    plan.step.ranks = data_ranks();
    plan.hardware = hardware();
    if (plan.hardware.name == name_of(DeviceKind::cpu)) plan.step.device = DeviceKind::cpu;
    plan.memory_bytes = plan.hardware.memory_gb * giga;
    constexpr double tera = 1e12;
    constexpr double micro = 1e-6;
    const bool given = peak_tflops_ > 0;
    const double flops_per_s =
        utilization_ *
        (given ? peak_tflops_ * tera : peak_flops_per_s(plan.hardware, plan.step.precision));
    const double attention =
        given ? flops_per_s
              : utilization_ * attention_flops_per_s(plan.hardware, plan.step.ops_config());
    const double bytes_per_s = plan.hardware.memory_gb_per_s > 0
                                   ? plan.hardware.memory_gb_per_s * giga
                                   : std::numeric_limits<double>::infinity();
    plan.rates = {.projection_flops_per_s = flops_per_s,
                  .feed_forward_flops_per_s = flops_per_s,
                  .head_flops_per_s = flops_per_s,
                  .attention_flops_per_s = attention,
                  .parameter_bytes_per_s = bytes_per_s,
                  .activation_bytes_per_s = bytes_per_s};
    plan.latency_s = latency_us_ * micro;
    check_plan(plan);
    return plan;
  }
  [[nodiscard]] DataSheet hardware() const {
    const bool all_given = memory_.bytes > 0 && peak_tflops_ > 0 && link_bandwidth_.bytes > 0;
    const std::string name = hardware_name_.empty() && !all_given ? "h100" : hardware_name_;
    const std::vector<DataSheet> known = known_hardware(hardware_file_);
    const auto found = std::ranges::find_if(
        known, [&](const DataSheet& device) { return is_device(name, device.name); });
    if (found == known.end() && !all_given) {
      std::vector<std::string_view> names;
      for (const DataSheet& device : known) names.push_back(device.name);
      throw UsageError(fmt::format("--hardware: '{}' is unknown; choose {}{}", name,
                                   fmt::join(names, ", "), did_you_mean(name, names)));
    }
    DataSheet device = found != known.end()
                           ? *found
                           : DataSheet{.name = name.empty() ? "custom" : name,
                                       .node_devices = 1,
                                       .source = "--memory, --peak-tflops and --link-bandwidth"};
    if (memory_.bytes > 0) device.memory_gb = static_cast<double>(memory_.bytes) / giga;
    if (link_bandwidth_.bytes > 0) {
      device.link_gb_per_s = static_cast<double>(link_bandwidth_.bytes) / giga;
      // --link-bandwidth holds within and across nodes: every device of a node sends at this rate.
      device.network_gb_per_s = device.link_gb_per_s * device.node_devices;
    }
    return device;
  }
  [[nodiscard]] std::int64_t data_ranks() const {
    const std::int64_t tensor = given_.tensor;
    if (fsdp_ * tensor > max_ranks) {
      throw UsageError(fmt::format("--fsdp: {} x --tp {} are {} ranks; use {} at most", fsdp_,
                                   tensor, fsdp_ * tensor, max_ranks));
    }
    if (fsdp_ > 0 && ranks_ > 0 && ranks_ != fsdp_ * tensor) {
      throw UsageError(fmt::format("--ranks: {} is not --fsdp {} x --tp {} = {}; leave --ranks out",
                                   ranks_, fsdp_, tensor, fsdp_ * tensor));
    }
    if (ranks_ % tensor != 0) {
      throw UsageError(fmt::format(
          "--ranks: {} cannot be split into groups of --tp {}; use a multiple", ranks_, tensor));
    }
    return fsdp_ > 0 ? fsdp_ : std::max<std::int64_t>(1, ranks_ / tensor);
  }
  void print(const PlanCase& plan) const {
    if (questions_.empty()) return print(plan_sections(plan));
    std::string text;
    for (const std::string& question : questions_) text += answer(question, plan, json_);
    write_out("{}", text);
  }
  void print(const std::vector<PlanSection>& sections) const {
    write_out("{}", json_ ? report_json(sections) : report_text(sections));
  }

  FactorOptions<TrainingCase> factors_{plan_factors(), plan_defaults()};
  PlanCase given_;             // the fields that options give as they are
  std::int64_t ranks_ = 0;     // 0: not given
  std::int64_t fsdp_ = 0;      // 0: not given
  std::string hardware_name_;  // empty: not given
  std::string hardware_file_;  // empty: not given
  ByteCount memory_;           // 0: the table's
  double peak_tflops_ = 0;     // 0: the table's
  ByteCount link_bandwidth_;   // 0: the table's
  double utilization_ = 1;
  double latency_us_ = 10;
  std::vector<std::string> questions_;
  std::string rates_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace paceline
