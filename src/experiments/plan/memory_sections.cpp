// The sections of a plan about memory.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>

#include "experiments/plan/closed_forms.h"
#include "experiments/plan/plan_report.h"

namespace paceline {

namespace {

using enum PlanUnit;

PlanSection state_section(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  const double n = plan.parameters();
  const std::string p = grouped(n);
  const std::string formula =
      plan.block_kind == BlockKind::two_matrix
          ? fmt::format("P = 2 L D F = 2 x {} x {} x {}", c.layers, c.d_model, c.d_ff)
          : fmt::format("P = 2 V D + L (4 D^2 + 3 D F + 2 D) + D; V {}, L {}, D {}, F {}", c.vocab,
                        c.layers, c.d_model, c.d_ff);
  PlanSection s{.name = "state", .title = "State of the model, unsharded"};
  s.add("parameters", "parameters", n, count, "{}", formula);
  s.add("weights_bytes", "weights", weight_bytes * n, bytes, "{} x 4, float32", p);
  s.add("gradients_bytes", "gradients", weight_bytes * n, bytes, "{} x 4, float32", p);
  s.add("optimizer_bytes", "optimizer state", optimizer_bytes * n, bytes,
        "{} x (4 + 4), Adam's m and v", p);
  s.add("state_bytes", "all", state_bytes * n, bytes, "16 P = 16 x {}", p);
  return s;
}

// The number of devices needed for the state only: with --memory, and for each device of the table,
// whose memory is taken as GB and as GiB.
PlanSection devices_section(const PlanCase& plan) {
  const double state = state_bytes * plan.parameters();
  const auto whole = [&](double memory) {
    return static_cast<std::int64_t>(devices_needed(state, memory));
  };
  TableRows rows("plan/devices");
  const auto add = [&](const DataSheet& device) {
    rows.add({{"hardware", device.name},
              {"memory", device.memory_gb, "GB or GiB"},
              {"read_as_gb", whole(device.memory_gb * giga), "devices"},
              {"read_as_gib", whole(device.memory_gb * gibi), "devices"}});
  };
  PlanSection s{
      .name = "devices",
      .title = fmt::format("Devices needed for the state only, {} / memory", both_sizes(state)),
      .note =
          "memory: the data sheet's number; the last columns take it as GB (1e9 bytes) and as "
          "GiB (2^30)"};
  const bool is_given = !plan.memory_text.empty();
  if (is_given) {
    s.add("devices", "of " + plan.memory_text, devices_needed(state, plan.memory_bytes), devices,
          "16 P / {}", plan.memory_text);
  } else {
    add(plan.hardware);
  }
  for (const DataSheet& device : known_hardware()) {
    if (is_given || device.name != plan.hardware.name) add(device);
  }
  s.table = rows.take();
  return s;
}

PlanSection activations_section(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  PlanSection s{.name = "activations", .title = "Activations kept for backward"};
  if (plan.block_kind == BlockKind::two_matrix) {
    const double token = two_matrix_saved_bytes_per_token(c);
    const std::size_t element = size_of(c.precision.compute);
    const std::string formula =
        c.recompute.blocks == 0
            ? fmt::format("{} L (D + F) = {} x {} x ({} + {})", element, element, c.layers,
                          c.d_model, c.d_ff)
            : fmt::format("{} (ceil(L / K) D + K (D + F)), K = {}", element, c.recompute.blocks);
    s.add("saved_bytes_per_token", "bytes per token", token, count, "{}", formula);
    s.add("saved_bytes", "of a step, A", token * plan.tokens(), bytes, "{} x {} tokens",
          grouped(token), grouped(plan.tokens()));
  } else {
    const double residual = bytes_of(c.precision.residual);
    s.add("residual_stream_bytes", "residual stream, one copy",
          plan.group_tokens() * static_cast<double>(c.d_model) * residual, bytes,
          "B T D x {:g} = {} x {} x {} x {:g}", residual, c.batch_size, c.context, c.d_model,
          residual);
    const std::map<std::string_view, std::pair<const char*, const char*>> shown = {
        {"a block", {"block_bytes", "a block"}},
        {"the head", {"head_bytes", "the head"}},
        {"activations before backward", {"saved_bytes", "all of a rank"}}};
    for (const MemoryLine& line : memory_lines(c.step_shape())) {
      const auto found = shown.find(line.what);
      if (found == shown.end()) continue;
      const auto& [key, what] = found->second;
      s.lines.push_back({key, what, line.formula, line.bytes, bytes});
    }
  }
  const BestRecompute best = best_recompute(plan);
  PlanCase with_best = plan;
  with_best.step.recompute = {.blocks = best.blocks};
  s.add("best_recompute_blocks", "best K of --recompute", static_cast<double>(best.blocks), count,
        "least peak: {}; FLOPs x {:.3f}", both_sizes(best.peak_bytes),
        with_best.step_flops() / plan.step_flops());
  return s;
}

// The number of devices needed for the state and the activations: --sharded-activations.
PlanSection sharded_activations_section(const PlanCase& plan) {
  const double state = state_bytes * plan.parameters();
  const double activations = device_memory(plan).activations * plan.tensor;
  const double part = plan.sharded_activations;
  PlanSection s{.name = "sharded_activations",
                .title = fmt::format("Devices N that share the state and {:g} of the activations: "
                                     "(16 P + {:g} A) / N + {:g} A",
                                     part, part, 1 - part)};
  const auto add = [&](const std::string& suffix, const std::string& memory, double size) {
    s.add("devices" + suffix, "A = 0", devices_needed(state, size), devices, "of {}", memory);
    s.add("devices_with_activations" + suffix,
          fmt::format("A of {} tokens", grouped(plan.group_tokens())),
          devices_needed(state, size, activations, part), devices, "of {}", memory);
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
  for (const auto& [key, what, part] : memory_parts) {
    if (m.*part > 0) s.lines.push_back({key, what, "", m.*part, bytes});
  }
  s.add("peak_bytes", "peak", m.peak(), bytes, "{} in {}", fits ? "fits" : "does not fit",
        both_sizes(plan.memory_bytes));
  return s;
}

// A device's peak memory for each sharding strategy, over the number of ranks.
PlanSection memory_by_ranks_section(const PlanCase& plan) {
  constexpr std::array kinds = {
      std::pair{"replicas_bytes", Strategy::bucketed}, std::pair{"zero1_bytes", Strategy::zero1},
      std::pair{"zero2_bytes", Strategy::zero2}, std::pair{"fsdp_bytes", Strategy::fsdp}};
  TableRows rows("plan/memory_by_ranks");
  constexpr int most = 1024;
  for (int n = 1; n <= most; n *= 2) {
    Row row = {{"data_ranks", std::int64_t{n}}};
    PlanCase other = plan;
    other.step.ranks = n;
    for (const auto& [column, strategy] : kinds) {
      other.step.strategy = strategy;
      row.push_back({column, device_memory(other).peak(), "bytes"});
    }
    // Tensor parallelism only, over N ranks.
    other.step.strategy = Strategy::none;
    other.step.ranks = 1;
    other.tensor = n;
    row.push_back({"tensor_bytes",
                   plan.divides_over(n) ? device_memory(other).peak() : std::nan(""), "bytes"});
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

}  // namespace

std::vector<PlanSection> memory_sections(const PlanCase& plan) {
  std::vector<PlanSection> sections = {state_section(plan), devices_section(plan),
                                       activations_section(plan)};
  if (plan.sharded_activations > 0) sections.push_back(sharded_activations_section(plan));
  sections.push_back(device_memory_section(plan));
  sections.push_back(memory_by_ranks_section(plan));
  return sections;
}

}  // namespace paceline
