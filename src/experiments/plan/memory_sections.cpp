// The sections of a plan about memory.

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/error.h"
#include "experiments/plan/device_memory.h"
#include "experiments/plan/plan_sections.h"

namespace paceline {

namespace {

PlanLine bytes_line(std::string key, std::string what, std::string formula, double bytes) {
  return {std::move(key), std::move(what), std::move(formula), bytes, PlanUnit::bytes};
}

PlanLine parameters_line(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  const std::string formula =
      plan.block_kind == BlockKind::two_matrix
          ? fmt::format("P = 2 L D F = 2 x {} x {} x {}", c.layers, c.d_model, c.d_ff)
          : fmt::format("P = 2 V D + L (4 D^2 + 3 D F + 2 D) + D; V {}, L {}, D {}, F {}", c.vocab,
                        c.layers, c.d_model, c.d_ff);
  return {"parameters", "parameters", formula, plan.parameters(), PlanUnit::count};
}

// devices_needed() as an integer, for tables.
std::int64_t whole_devices(double bytes, double device_bytes) {
  return static_cast<std::int64_t>(devices_needed(bytes, device_bytes));
}

}  // namespace

PlanSection state_section(const PlanCase& plan) {
  const double n = plan.parameters();
  const StateBytes state = state_bytes(n);
  const std::string p = grouped(n);
  return {
      .name = "state",
      .title = "State of the model, unsharded",
      .lines = {parameters_line(plan),
                bytes_line("weights_bytes", "weights", p + " x 4, float32", state.weights),
                bytes_line("gradients_bytes", "gradients", p + " x 4, float32", state.gradients),
                bytes_line("optimizer_bytes", "optimizer state", p + " x (4 + 4), Adam's m and v",
                           state.optimizer),
                bytes_line("state_bytes", "all", "16 P = 16 x " + p, state.all())}};
}

PlanSection devices_section(const PlanCase& plan) {
  const double state = state_bytes(plan.parameters()).all();
  TableRows rows("plan/devices");
  const auto add = [&](const std::string& name, double memory_gb) {
    rows.add({{"hardware", name},
              {"memory", memory_gb, "GB or GiB"},
              {"read_as_gb", whole_devices(state, memory_gb * giga), "devices"},
              {"read_as_gib", whole_devices(state, memory_gb * gibi), "devices"}});
  };
  PlanSection s{
      .name = "devices",
      .title = fmt::format("Devices needed for the state only, {} / memory", both_sizes(state))};
  const bool is_given = !plan.memory_text.empty();
  if (is_given) {
    s.lines.push_back({"devices", "of " + plan.memory_text, "16 P / " + plan.memory_text,
                       devices_needed(state, plan.memory_bytes), PlanUnit::devices});
  } else {
    add(plan.hardware.name, plan.hardware.memory_gb);
  }
  try {
    for (const Hardware& h : known_hardware()) {
      if (is_given || h.name != plan.hardware.name) add(h.name, h.memory_gb);
    }
  } catch (const EnvironmentError&) {  // the table is a TOML file, which this build cannot read
    if (is_given) return s;
  }
  s.table = rows.take();
  s.note =
      "memory: the data sheet's number; the last columns take it as GB (1e9 bytes) and as GiB "
      "(2^30)";
  return s;
}

PlanSection activations_section(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  PlanSection s{.name = "activations", .title = "Activations kept for backward"};
  if (plan.block_kind == BlockKind::two_matrix) {
    const double token = two_matrix_saved_bytes_per_token(c);
    const std::size_t element = size_of(c.precision.compute);
    s.lines.push_back(
        {"saved_bytes_per_token", "bytes per token",
         c.recompute.blocks == 0
             ? fmt::format("{} L (D + F) = {} x {} x ({} + {})", element, element, c.layers,
                           c.d_model, c.d_ff)
             : fmt::format("{} (ceil(L / K) D + K (D + F)), K = {}", element, c.recompute.blocks),
         token, PlanUnit::count});
    s.lines.push_back(
        bytes_line("saved_bytes", "of a step, A",
                   fmt::format("{} x {} tokens", grouped(token), grouped(plan.tokens())),
                   token * plan.tokens()));
  } else {
    const auto residual = static_cast<double>(size_of(c.precision.residual));
    s.lines.push_back(bytes_line("residual_stream_bytes", "residual stream, one copy",
                                 fmt::format("B T D x {:g} = {} x {} x {} x {:g}", residual,
                                             c.batch_size, c.context, c.d_model, residual),
                                 plan.group_tokens() * static_cast<double>(c.d_model) * residual));
    for (const MemoryLine& line : memory_lines(c.step_shape())) {
      if (line.what == "a block" || line.what == "the head" ||
          line.what == "activations before backward") {
        const bool all = line.what.starts_with("activations");
        s.lines.push_back(
            bytes_line(all ? "saved_bytes" : line.what.substr(line.what.find(' ') + 1) + "_bytes",
                       all ? "all of a rank" : line.what, line.formula, line.bytes));
      }
    }
  }
  const BestRecompute best = best_recompute(plan);
  PlanCase with_best = plan;
  with_best.step.recompute = {.blocks = best.blocks};
  s.lines.push_back({"best_recompute_blocks", "best K of --recompute",
                     fmt::format("least peak: {}; FLOPs x {:.3f}", both_sizes(best.peak_bytes),
                                 with_best.step_flops() / plan.step_flops()),
                     static_cast<double>(best.blocks), PlanUnit::count});
  return s;
}

PlanSection sharded_activations_section(const PlanCase& plan) {
  const double state = state_bytes(plan.parameters()).all();
  const double activations = device_memory(plan).activations * plan.tensor;
  const double part = plan.sharded_activations;
  PlanSection s{.name = "sharded_activations",
                .title = fmt::format("Devices N that share the state and {:g} of the activations: "
                                     "(16 P + {:g} A) / N + {:g} A",
                                     part, part, 1 - part)};
  const auto add = [&](const std::string& suffix, const std::string& memory, double bytes) {
    for (const bool all : {false, true}) {
      const double kept = all ? activations : 0;
      s.lines.push_back(
          {(all ? "devices_with_activations" : "devices") + suffix,
           all ? fmt::format("A of {} tokens", grouped(plan.group_tokens())) : "A = 0",
           "of " + memory, devices_with_activations(state, kept, part, bytes), PlanUnit::devices});
    }
  };
  if (plan.memory_text.empty()) {
    const double memory = plan.hardware.memory_gb;
    add("_gb", fmt::format("{:g} GB", memory), memory * giga);
    add("_gib", fmt::format("{:g} GiB", memory), memory * gibi);
  } else {
    add("", plan.memory_text, plan.memory_bytes);
  }
  return s;
}

PlanSection device_memory_section(const PlanCase& plan) {
  const MemoryForm m = device_memory(plan);
  const bool fits = m.peak() <= plan.memory_bytes;
  PlanSection s{.name = "device_memory", .title = "Memory of the device with the largest shard"};
  const auto add = [&](const char* key, const char* what, double bytes) {
    if (bytes > 0) s.lines.push_back(bytes_line(key, what, "", bytes));
  };
  add("parameters_bytes", "parameters and copies", m.parameters);
  add("gathered_bytes", "gathered parameters", m.gathered);
  add("gradients_bytes", "gradients", m.gradients);
  add("optimizer_bytes", "optimizer state", m.optimizer);
  add("activations_bytes", "activations", m.activations);
  add("transient_bytes", "transient at the peak", m.transient);
  s.lines.push_back(bytes_line(
      "peak_bytes", "peak",
      fmt::format("{} in {}", fits ? "fits" : "does not fit", both_sizes(plan.memory_bytes)),
      m.peak()));
  return s;
}

PlanSection memory_by_ranks_section(const PlanCase& plan) {
  struct Kind {
    const char* column;
    Strategy strategy;
  };
  constexpr std::array kinds = {Kind{"replicas", Strategy::bucketed},
                                Kind{"zero1", Strategy::zero1}, Kind{"zero2", Strategy::zero2},
                                Kind{"fsdp", Strategy::fsdp}};
  TableRows rows("plan/memory_by_ranks");
  constexpr int most = 1024;
  for (int n = 1; n <= most; n *= 2) {
    Row row = {{"data_ranks", std::int64_t{n}}};
    PlanCase other = plan;
    other.step.ranks = n;
    for (const auto& [column, strategy] : kinds) {
      other.step.strategy = strategy;
      row.push_back({std::string(column) + "_bytes", device_memory(other).peak(), "bytes"});
    }
    // Tensor parallelism only, over N ranks.
    const bool divides = plan.step.d_model % n == 0 && plan.step.d_ff % n == 0 &&
                         (plan.block_kind == BlockKind::two_matrix || plan.step.heads % n == 0);
    other.step.strategy = Strategy::none;
    other.step.ranks = 1;
    other.tensor = n;
    row.push_back({"tensor_bytes", divides ? device_memory(other).peak() : std::nan(""), "bytes"});
    rows.add(row);
  }
  return {
      .name = "memory_by_ranks",
      .title = fmt::format(
          "Peak of a device over N data-parallel ranks{}",
          plan.tensor > 1 ? fmt::format(", each of {} tensor-parallel ranks", plan.tensor) : ""),
      .table = rows.take(),
      .note =
          "replicas: bucketed all_reduce; tensor: N tensor-parallel ranks only; "
          "GB are 1e9 bytes"};
}

}  // namespace paceline
