#include "experiments/plan/plan_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

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

}  // namespace

PlanOptions::PlanOptions() : factors_(plan_factors(), plan_defaults()) {}

void PlanOptions::declare(OptionParser& p) {
  factors_.declare(p);
  p.value("--blocks", block_kind_,
          "transformer: the program's model; two-matrix: the course's, with blocks of matrices "
          "[D, F] and [F, D] only (transformer two-matrix) [transformer]");
  p.value("--ranks", ranks_, "total ranks: data-parallel ranks x --tp [--fsdp x --tp]",
          {1, max_ranks});
  p.value("--fsdp", fsdp_,
          "data-parallel ranks, with parameters sharded over them (implies --shard fsdp)",
          {1, max_ranks});
  p.value("--tp", tensor_, "tensor-parallel ranks; must divide heads, d_model and d_ff [1]",
          {1, 1 << 14});
  p.option("--mesh-axes",
           "mesh axes, each with its own links, of data-parallel and of tensor-parallel "
           "collectives (MX,MY) [1,1]",
           [this](const OptionParser::Texts& t) { axes_ = read_axes(t); },
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
             const bool has_unit = std::isalpha(static_cast<unsigned char>(t.front().back())) != 0;
             memory_text_ = t.front() + (has_unit ? "" : " bytes");
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
  p.value("--sharded-activations", sharded_activations_,
          "fraction of the activations that is sharded over the devices with the state: the least "
          "number of devices [0]",
          {0, 1});
  p.presets(plan_presets(), {{"--shard", "--fsdp"}});
}

void PlanOptions::check(const OptionParser& p) {
  factors_.finish(p);
  if (p.by_name("--fsdp") && p.by_name("--shard")) {
    throw UsageError("--fsdp: implies --shard fsdp; leave --shard out");
  }
  if (p.given("--sync") && (p.given("--fsdp") || p.given("--shard"))) {
    throw UsageError("--sync: cannot be combined with --shard or --fsdp; leave one of them out");
  }
  for (const char* option : {"--heads", "--vocab", "--attention", "--exec"}) {
    if (block_kind_ == BlockKind::two_matrix && p.by_name(option)) {
      throw UsageError(fmt::format("{}: goes with --blocks transformer; leave it out", option));
    }
  }
  std::vector<std::string> dimensions = {"--d-model", "--d-ff", "--layers"};
  if (block_kind_ == BlockKind::transformer) dimensions.emplace_back("--heads");
  read_custom_size(p, factors_, dimensions);
  for (const auto& [option, value] : {std::pair("--memory", memory_.bytes),
                                      std::pair("--link-bandwidth", link_bandwidth_.bytes)}) {
    if (p.given(option) && value == 0) {
      throw UsageError(fmt::format("{}: must be above 0; leave it out for the table's", option));
    }
  }
}

Hardware PlanOptions::hardware() const {
  const bool all_given = memory_.bytes > 0 && peak_tflops_ > 0 && link_bandwidth_.bytes > 0;
  const std::string name = hardware_name_.empty() && !all_given ? "h100" : hardware_name_;
  Hardware h{.name = name.empty() ? "custom" : name,
             .source = "--memory, --peak-tflops and --link-bandwidth"};
  if (!all_given || is_known_hardware(name, hardware_file_)) {
    h = hardware_named(name, hardware_file_);
  }
  if (memory_.bytes > 0) h.memory_gb = static_cast<double>(memory_.bytes) / giga;
  if (link_bandwidth_.bytes > 0) {
    h.link_bytes_per_s = static_cast<double>(link_bandwidth_.bytes);
    // --link-bandwidth holds within and across nodes: every device of a node sends at this rate.
    h.network_bytes_per_s = h.link_bytes_per_s * h.node_devices;
  }
  return h;
}

void PlanOptions::set_layout(PlanCase& plan) const {
  TrainingCase& c = plan.step;
  plan.tensor = static_cast<int>(tensor_);
  plan.axes = axes_;
  if (fsdp_ * tensor_ > max_ranks) {
    throw UsageError(fmt::format("--fsdp: {} x --tp {} are {} ranks; use {} at most", fsdp_,
                                 tensor_, fsdp_ * tensor_, max_ranks));
  }
  if (fsdp_ > 0) {
    c.strategy = Strategy::fsdp;
    c.ranks = fsdp_;
    if (ranks_ > 0 && ranks_ != fsdp_ * tensor_) {
      throw UsageError(fmt::format("--ranks: {} is not --fsdp {} x --tp {} = {}; leave --ranks out",
                                   ranks_, fsdp_, tensor_, fsdp_ * tensor_));
    }
  } else if (ranks_ > 0) {
    if (ranks_ % tensor_ != 0) {
      throw UsageError(
          fmt::format("--ranks: {} cannot be split into groups of --tp {}; use a "
                      "multiple",
                      ranks_, tensor_));
    }
    c.ranks = ranks_ / tensor_;
  }
}

PlanCase PlanOptions::plan() const {
  PlanCase plan;
  plan.block_kind = block_kind_;
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
  set_layout(plan);
  plan.hardware = hardware();
  if (plan.hardware.name == name_of(DeviceKind::cpu)) plan.step.device = DeviceKind::cpu;
  plan.sharded_activations = sharded_activations_;
  constexpr double tera = 1e12;
  constexpr double micro = 1e-6;
  plan.memory_bytes = plan.hardware.memory_gb * giga;
  plan.memory_text = memory_text_;
  const double bytes_per_s = plan.hardware.memory_bytes_per_s > 0
                                 ? plan.hardware.memory_bytes_per_s
                                 : std::numeric_limits<double>::infinity();
  const bool given = peak_tflops_ > 0;
  const double flops_per_s =
      utilization_ *
      (given ? peak_tflops_ * tera : plan.hardware.peak_flops_per_s(plan.step.precision));
  plan.rates = {.projection_flops_per_s = flops_per_s,
                .feed_forward_flops_per_s = flops_per_s,
                .head_flops_per_s = flops_per_s,
                .attention_flops_per_s = given ? flops_per_s
                                               : utilization_ * plan.hardware.attention_flops_per_s(
                                                                    plan.step.ops_config()),
                .parameter_bytes_per_s = bytes_per_s,
                .activation_bytes_per_s = bytes_per_s};
  plan.latency_s = latency_us_ * micro;
  check_plan(plan);
  return plan;
}

}  // namespace paceline
