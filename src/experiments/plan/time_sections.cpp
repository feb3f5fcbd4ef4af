// The sections of a plan about time and batch sizes.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "experiments/plan/closed_forms.h"
#include "experiments/plan/plan_report.h"

namespace paceline {

namespace {

// A rate is infinite if it is not known: --memory, --peak-tflops and --link-bandwidth replace the
// table but do not give a memory bandwidth.
std::string rate(double per_second) {
  return std::isinf(per_second) ? "unknown" : fmt::format("{:.4g}", per_second);
}

// NaN for an infinite value, which tables show as "-".
double finite_or_none(double tokens) {
  return std::isfinite(tokens) ? tokens : std::numeric_limits<double>::quiet_NaN();
}

using enum PlanUnit;

PlanSection layout_section(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  PlanSection s{.name = "layout",
                .title = fmt::format(
                    "{} = {} data-parallel ({}) x {} tensor-parallel on {} of {}, {}",
                    counted(plan.ranks(), "rank"), plan.data_ranks(), name_of(c.strategy),
                    plan.tensor, plan.hardware.name,
                    plan.memory_text.empty() ? fmt::format("{:g} GB", plan.hardware.memory_gb)
                                             : plan.memory_text,
                    c.precision.name)};
  s.add("ranks", "ranks", static_cast<double>(plan.ranks()), count,
        "data-parallel x tensor-parallel");
  s.add("tokens", "batch", plan.tokens(), tokens, "{} x {} x {} data-parallel ranks", c.batch_size,
        c.context, plan.data_ranks());
  s.add("peak_flops_per_s", "peak C [FLOP/s]", plan.weight_flops_per_s(), number, "{}",
        plan.hardware.source);
  s.add("element_bytes", "bytes per element", bytes_of(c.precision.compute), count,
        "of the operands of matrix products");
  return s;
}

PlanSection compute_bound_section(const PlanCase& plan) {
  const ComputeBound b = compute_bound(plan, RingFactor::left_out);
  const ComputeBound rings = compute_bound(plan, RingFactor::counted);
  const int X = plan.data_ranks();
  const int Y = plan.tensor;
  const bool gathers = plan.step.strategy == Strategy::fsdp;
  const std::string C = rate(plan.weight_flops_per_s());
  const std::string w = rate(bandwidth_bytes_per_s(plan.hardware, plan.ranks(), Y));
  const std::string w_tensor = rate(bandwidth_bytes_per_s(plan.hardware, Y));
  PlanSection s{.name = "compute_bound",
                .title = fmt::format(
                    "Smallest compute-bound batch: {}",
                    gathers ? "forward, gathering parameters" : "backward, exchanging gradients")};
  s.add("compute_s_per_token", "c, products per token", b.compute_s_per_token, seconds,
        "f / (X Y C) = {} / ({} x {} x {})", rate(b.flops_per_token), X, Y, C);
  s.add("exchange_s", gathers ? "g, gathers" : "g, gradients", b.exchange_s, seconds,
        "V / (W M_X) = {} / ({} x {})", rate(b.exchanged_bytes), w, plan.axes.data);
  s.add("tensor_s_per_token", "t, activations per token", b.tensor_s_per_token, seconds,
        "v / (W M_Y) = {} / ({} x {})", rate(b.tensor_bytes_per_token), w_tensor, plan.axes.tensor);
  if (plan.block_kind == BlockKind::two_matrix && Y > 1) {
    s.add("tensor_least_d_ff", "least d_ff for c > t", b.tensor_least_d_ff, count,
          "n e / (4 p) x Y C / (W M_Y) = {:g} x {} / (4 x {:g}) x {} x {} / ({} x {}); n "
          "collectives of e bytes per element, p times forward's FLOPs; d_ff is {}: {}",
          b.tensor_collectives, size_of(plan.step.precision.compute), b.passes, Y, C, w_tensor,
          plan.axes.tensor, grouped(static_cast<double>(plan.step.d_ff)),
          b.tensor_is_hidden() ? "holds" : "does not hold");
  }
  const auto add = [&](const std::string& key, const char* what, const char* formula,
                       double batch) {
    s.add(key, what, batch, tokens, "{}", formula);
    s.add(key + "_per_device", "  per device", batch / static_cast<double>(plan.ranks()), tokens,
          "over X Y = {}", plan.ranks());
  };
  add("overlapped_tokens", "overlapped", "B c >= g: B = g / c; and c > t", b.overlapped_tokens());
  add("serial_tokens", "serial", "B c >= g + B t: B = g / (c - t)", b.serial_tokens());
  add("serial_rings_tokens", "serial, rings",
      "as serial, with (X - 1) / X of V and (Y - 1) / Y of v", rings.serial_tokens());
  s.note =
      "overlapped: both kinds of collectives and the products run concurrently; serial: one kind "
      "of collectives after the other, concurrently with the products";
  return s;
}

PlanSection what_if_section(const PlanCase& plan) {
  TableRows rows("plan/what_if");
  const auto add = [&](const std::string& what, const PlanCase& other, double exchange_factor) {
    ComputeBound b = compute_bound(other, RingFactor::left_out);
    b.exchange_s *= exchange_factor;
    rows.add({{"what", what},
              {"overlapped", finite_or_none(b.overlapped_tokens()), "tokens"},
              {"serial", finite_or_none(b.serial_tokens()), "tokens"},
              {"batch", other.tokens(), "tokens"},
              {"peak_bytes", device_memory(other).peak(), "bytes"}});
  };
  add("as planned", plan, 1);
  const bool gathers = plan.step.strategy == Strategy::fsdp;
  const bool keeps = gathers && plan.step.reshard == Reshard::no;
  if (gathers) {
    const auto element = bytes_of(plan.step.precision.compute);
    add("FP8 gathers", plan, 1 / element);
  }
  if (gathers && !keeps) {
    PlanCase kept = plan;
    kept.step.reshard = Reshard::no;
    // A step exchanges one all_gather and one reduce_scatter instead of two all_gathers and one
    // reduce_scatter.
    add("gathers kept for backward", kept, 2.0 / 3);
    constexpr double micro_batches = 4;
    add("gathers kept for 4 micro-batches", kept, 1 / micro_batches);
  }
  if (plan.data_ranks() % 2 == 0 && plan.divides_over(2L * plan.tensor)) {
    PlanCase wider = plan;
    wider.tensor *= 2;
    wider.step.ranks /= 2;
    wider.step.batch_size *= 2;
    add(fmt::format("tensor parallel {}, same devices", wider.tensor), wider, 1);
  }
  PlanCase larger = plan;
  larger.step.batch_size *= 2;
  add("twice the batch", larger, 1);
  PlanCase faster = plan;
  faster.hardware.link_gb_per_s *= 2;
  faster.hardware.network_gb_per_s *= 2;
  add("twice the link bandwidth", faster, 1);
  return {.name = "what_if",
          .title = "Alternatives: smallest compute-bound batch, and memory of a device",
          .table = rows.take(),
          .note = fmt::format(
              "the layout is compute-bound if batch is at least the bound (-: for no batch){}",
              gathers && !keeps ? "; kept for backward: two of a step's three collectives remain"
                                : "")};
}

PlanSection step_time_section(const PlanCase& plan) {
  const StepTime t = step_time(plan);
  const Work work = plan.work();
  const WorkRates& rates = plan.rates;
  PlanSection s{.name = "step_time", .title = "Time of a step"};
  s.add("products_s", "products", t.products_s, seconds,
        "D x D {} FLOP / {}, D x F {} / {}, D x V {} / {}, T x T {} / {}",
        rate(work.projection_flops), rate(rates.projection_flops_per_s),
        rate(work.feed_forward_flops), rate(rates.feed_forward_flops_per_s), rate(work.head_flops),
        rate(rates.head_flops_per_s), rate(work.attention_flops),
        rate(rates.attention_flops_per_s));
  s.add("traffic_s", "traffic", t.traffic_s, seconds,
        "parameters {} bytes / {}, activations {} / {}", rate(work.parameter_bytes),
        rate(rates.parameter_bytes_per_s), rate(work.activation_bytes),
        rate(rates.activation_bytes_per_s));
  constexpr double micro = 1e-6;
  s.add("fixed_s", "fixed", t.fixed_s, seconds, "{} blocks x {:.3g} us, {} heads x {:.3g} us",
        work.blocks, 1 / rates.blocks_per_s / micro, work.heads, 1 / rates.heads_per_s / micro);
  s.add("tensor_s", "tensor-parallel collectives", t.tensor_s, seconds,
        "5 per summed sublayer, not overlapped");
  s.add("exchange_s", "data-parallel collectives", t.exchange_s, seconds,
        "{:g} calls, {} sent per rank", t.exchange_calls, both_sizes(t.exchange_bytes));
  s.add("exposed_s", "  exposed part", t.exposed_s, seconds,
        "longer than the overlapping passes, at least the last call");
  if (t.contention_s > 0) {
    s.add("contention_s", "contention", t.contention_s, seconds,
          "{:.3f} of the time of overlapped collectives", plan.contention);
  }
  if (plan.correction != 1) {
    s.note = fmt::format(
        "products, traffic and fixed are {:.3f} times the fitted rates' times, as "
        "measured for this size",
        plan.correction);
  }
  s.add("step_s", "step", t.step_s(), seconds,
        "products + traffic + fixed + tensor + exposed + contention");
  const double per_second = plan.tokens() / t.step_s();
  s.add("tokens_per_s", "tokens/s", per_second, count, "{} tokens / step", grouped(plan.tokens()));
  s.add("tokens_per_s_per_device", "tokens/s per device",
        per_second / static_cast<double>(plan.ranks()), count, "");
  return s;
}

// Where the exchange of at most `ranks` ranks crosses nodes: the bandwidth there.
std::string across_nodes(const PlanCase& plan, int ranks) {
  const DataSheet& h = plan.hardware;
  const double within = giga * h.link_gb_per_s * plan.axes.data;
  const double beyond =
      bandwidth_bytes_per_s(h, std::int64_t{h.node_devices} + 1, plan.tensor) * plan.axes.data;
  if (ranks <= h.node_devices || beyond == within) return "";
  return fmt::format(
      ". On more than {} ranks the exchange crosses nodes: {}/s a device instead of {}/s",
      h.node_devices, bytes_text(beyond), bytes_text(within));
}

PlanSection scaling_section(const PlanCase& plan) {
  TableRows rows("plan/scaling");
  PlanCase other = plan;
  other.step.ranks = 1;
  const double alone = step_time(other).step_s();
  constexpr int most = 16'384;
  int ranks = plan.tensor;
  for (; ranks <= most; ranks *= 2, other.step.ranks *= 2) {
    const StepTime t = step_time(other);
    rows.add({{"ranks", std::int64_t{ranks}},
              {"step_s", t.step_s(), "s"},
              {"exchange_s", t.exchange_s, "s"},
              {"exposed_s", t.exposed_s, "s"},
              {"tokens_per_s", other.tokens() / t.step_s(), "tokens/s"},
              {"efficiency", alone / t.step_s()},
              {"peak_bytes", device_memory(other).peak(), "bytes"}});
  }
  return {
      .name = "scaling",
      .title = "Weak scaling: the same batch per data-parallel rank",
      .table = rows.take(),
      .note =
          "efficiency: step time on one data-parallel rank over step time on N ranks; above 1 "
          "if sharding makes the update shorter. exposed: communication that is not overlapped" +
          across_nodes(plan, ranks / 2)};
}

}  // namespace

std::vector<PlanSection> plan_sections(const PlanCase& plan) {
  std::vector<PlanSection> sections = memory_sections(plan);
  sections.insert(sections.begin(), layout_section(plan));
  if (plan.ranks() > 1) {
    sections.push_back(compute_bound_section(plan));
    sections.push_back(what_if_section(plan));
  }
  sections.push_back(step_time_section(plan));
  sections.push_back(scaling_section(plan));
  return sections;
}

}  // namespace paceline
