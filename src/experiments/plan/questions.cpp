#include "experiments/plan/questions.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <utility>

#include "core/error.h"
#include "core/ring.h"
#include "core/units.h"
#include "experiments/plan/compute_bound.h"
#include "experiments/plan/device_memory.h"
#include "experiments/plan/plan_report.h"
#include "experiments/plan/step_time.h"
#include "experiments/training/bucket_prediction.h"
#include "measure/progress.h"
#include "record/console.h"

namespace paceline {

namespace {

// Bisection: the largest integer in 1 ... most for which `holds` is true; 0 if it is false for 1.
// `holds` must be monotone: true up to some number, false above.
std::int64_t largest(std::int64_t most, const std::function<bool(std::int64_t)>& holds) {
  std::int64_t good = 0;
  std::int64_t bad = most + 1;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

double peak_of(const PlanCase& plan) { return device_memory(plan).peak(); }

std::string of_memory(const PlanCase& plan, double bytes) {
  return fmt::format("{} of {}", bytes_text(bytes), bytes_text(plan.memory_bytes));
}

// The largest value of a field of the case with which the plan fits into a device's memory.
Answer largest_that_fits(const PlanCase& plan, Question question, std::int64_t ModelFactors::*field,
                         std::int64_t most, const std::string& unit) {
  PlanCase other = plan;
  const auto peak = [&](std::int64_t value) {
    other.step.*field = value;
    return peak_of(other);
  };
  const std::int64_t best = largest(most, [&](auto n) { return peak(n) <= plan.memory_bytes; });
  if (best == 0) {
    return {question,
            fmt::format("none fits: 1 {} needs {}", unit, of_memory(plan, peak(1))),
            {{"largest", std::int64_t{0}}, {"peak_bytes", peak(1)}}};
  }
  return {question,
          fmt::format("{} a rank: {} a device", counted(best, unit), of_memory(plan, peak(best))),
          {{"largest", best}, {"peak_bytes", peak(best)}}};
}

Answer fewest_devices(const PlanCase& plan) {
  constexpr std::int64_t most = 1 << 20;
  PlanCase other = plan;
  const auto fits = [&](std::int64_t data_ranks) {
    other.step.ranks = data_ranks;
    return peak_of(other) <= plan.memory_bytes;
  };
  const std::int64_t data_ranks = largest(most, [&](auto n) { return !fits(n); }) + 1;
  const std::string layout =
      fmt::format("{} x {} tensor-parallel", name_of(plan.step.strategy), plan.tensor);
  if (data_ranks > most) {
    other.step.ranks = most;
    return {Question::fewest_devices,
            fmt::format("none: {} needs {} with any number of devices", layout,
                        of_memory(plan, peak_of(other))),
            {{"devices", std::int64_t{0}}, {"peak_bytes", peak_of(other)}}};
  }
  other.step.ranks = data_ranks;
  return {Question::fewest_devices,
          fmt::format("{} ({} {}): {} each", counted(other.ranks(), "device"), data_ranks, layout,
                      of_memory(plan, peak_of(other))),
          {{"devices", other.ranks()}, {"peak_bytes", peak_of(other)}}};
}

Answer memory_by_kind(const PlanCase& plan) {
  const MemoryForm m = device_memory(plan);
  const auto gb = [](double bytes) { return bytes_text(bytes); };
  return {Question::memory,
          fmt::format("parameters {}, gathered {}, gradients {}, optimizer {}, activations {}, "
                      "transient {}: {}",
                      gb(m.parameters), gb(m.gathered), gb(m.gradients), gb(m.optimizer),
                      gb(m.activations), gb(m.transient), of_memory(plan, m.peak())),
          {{"parameters_bytes", m.parameters},
           {"gathered_bytes", m.gathered},
           {"gradients_bytes", m.gradients},
           {"optimizer_bytes", m.optimizer},
           {"activations_bytes", m.activations},
           {"transient_bytes", m.transient},
           {"peak_bytes", m.peak()}}};
}

Answer kept_gathers(const PlanCase& plan) {
  if (plan.step.strategy != Strategy::fsdp) {
    throw UsageError("--ask: kept-gathers needs --fsdp X");
  }
  PlanCase kept = plan;
  PlanCase freed = plan;
  kept.step.reshard = Reshard::no;
  freed.step.reshard = Reshard::yes;
  const double peak = peak_of(kept);
  const bool fits = peak <= plan.memory_bytes;
  const StepTime with = step_time(kept);
  const StepTime without = step_time(freed);
  return {Question::kept_gathers,
          fmt::format("kept: {}, {}, {} sent, step {}; freed: {}, {} sent, step {}",
                      fits ? "fits" : "does not fit", of_memory(plan, peak),
                      bytes_text(with.exchange_bytes), seconds_text(with.step_s()),
                      bytes_text(peak_of(freed)), bytes_text(without.exchange_bytes),
                      seconds_text(without.step_s())),
          {{"fits", fits},
           {"peak_bytes", peak},
           {"step_kept_s", with.step_s()},
           {"step_freed_s", without.step_s()}}};
}

Answer gradient_dtype(const PlanCase& plan) {
  if (plan.step.precision.loss_scaling) {
    throw UsageError("--ask: gradient-dtype leaves no choice with --precision fp16; use bf16");
  }
  PlanCase fp32 = plan;
  PlanCase bf16 = plan;
  fp32.step.comm_dtype = GradientDtype::fp32;
  bf16.step.comm_dtype = GradientDtype::bf16;
  const double slow = step_time(fp32).step_s();
  const double fast = step_time(bf16).step_s();
  constexpr double worth = 0.01;
  const bool pays = fast < slow * (1 - worth);
  return {Question::gradient_dtype,
          fmt::format("{}: step {} with bf16, {} with fp32; peak {}, {}",
                      pays ? "bf16" : "fp32 (bf16 gains below 1%)", seconds_text(fast),
                      seconds_text(slow), bytes_text(peak_of(bf16)), bytes_text(peak_of(fp32))),
          {{"best", std::string(pays ? "bf16" : "fp32")},
           {"step_bf16_s", fast},
           {"step_fp32_s", slow},
           {"peak_bf16_bytes", peak_of(bf16)},
           {"peak_fp32_bytes", peak_of(fp32)}}};
}

Answer compute_bound_batch(const PlanCase& plan) {
  if (plan.ranks() == 1) {
    throw UsageError("--ask: compute-bound needs --ranks above 1: one rank exchanges nothing");
  }
  const ComputeBound b = compute_bound(plan, RingFactor::left_out);
  const double overlapped = b.overlapped_tokens();
  const double serial = b.serial_tokens();
  const auto text = [&](double tokens) {
    return fmt::format("{} tokens ({} each)", grouped(tokens),
                       grouped(tokens / static_cast<double>(plan.ranks())));
  };
  const Row values = {{"overlapped_tokens", overlapped}, {"serial_tokens", serial}};
  if (!b.tensor_is_hidden()) {
    return {Question::compute_bound,
            fmt::format("at no batch: activations of a token take {}, its products {}; use fewer "
                        "--tp",
                        seconds_text(b.tensor_s_per_token), seconds_text(b.compute_s_per_token)),
            values};
  }
  return {Question::compute_bound,
          fmt::format("from {} overlapped, {} serial; this batch: {}", text(overlapped),
                      text(serial), text(plan.tokens())),
          values};
}

Answer best_bucket(const PlanCase& plan) {
  if (plan.data_ranks() == 1) throw UsageError("--ask: best-bucket needs --ranks above --tp");
  const double bytes = plan.parameters() / plan.tensor *
                       static_cast<double>(size_of(plan.strategy_shape().precision.communication));
  const double latency = collective_latency_s(plan, plan.data_ranks());
  if (latency <= 0 && plan.link_file.empty()) {
    throw UsageError("--ask: best-bucket needs --latency above 0");
  }
  if (latency <= 0) {
    throw UsageError(
        fmt::format("--ask: best-bucket needs a latency above 0, which all_reduce does not have in "
                    "{}; measure smaller sizes with collectives --fit",
                    plan.link_file));
  }
  // Bandwidth in bytes of the message.
  const double bandwidth =
      plan.data_bandwidth_bytes_per_s() / ring_share("all_reduce", plan.data_ranks());
  const double best = best_bucket_bytes(bytes, latency, bandwidth);
  return {Question::best_bucket,
          fmt::format("{}: sqrt(s o w) of {} of gradients, {} and {}/s, at most s; {} buckets",
                      bytes_text(best), bytes_text(bytes), seconds_text(latency),
                      bytes_text(bandwidth), number_text(bytes / best)),
          {{"bucket_bytes", best},
           {"gradient_bytes", bytes},
           {"latency_s", latency},
           {"bandwidth_bytes_per_s", bandwidth}}};
}

Answer twice_the_bandwidth(const PlanCase& plan) {
  if (plan.ranks() == 1) {
    throw UsageError("--ask: link-bandwidth needs --ranks above 1: one rank exchanges nothing");
  }
  PlanCase faster = plan;
  faster.hardware.link_bytes_per_s *= 2;
  faster.hardware.network_bytes_per_s *= 2;
  const StepTime now = step_time(plan);
  const StepTime then = step_time(faster);
  return {Question::link_bandwidth,
          fmt::format("doubled: step {} instead of {} (x {:.2f}); exposed {} instead of {}",
                      seconds_text(then.step_s()), seconds_text(now.step_s()),
                      now.step_s() / then.step_s(), seconds_text(then.exposed_s),
                      seconds_text(now.exposed_s)),
          {{"step_s", now.step_s()},
           {"step_doubled_s", then.step_s()},
           {"speedup", now.step_s() / then.step_s()}}};
}

// In the largest unit of which it is at least 1.
std::string duration_text(double seconds) {
  constexpr double minute = 60;
  constexpr double hour = 60 * minute;
  constexpr double day = 24 * hour;
  constexpr std::array units = {std::pair(day, "days"), std::pair(hour, "hours"),
                                std::pair(minute, "minutes")};
  for (const auto& [unit, name] : units) {
    if (seconds >= unit) return fmt::format("{} {}", number_text(seconds / unit, 4), name);
  }
  return seconds_text(seconds);
}

Answer training_run(const PlanCase& plan, double run_tokens) {
  if (run_tokens <= 0) throw UsageError("--ask: run needs --run-tokens N");
  constexpr double hour = 3600;
  const double per_second = plan.tokens() / step_time(plan).step_s();
  const double seconds = run_tokens / per_second;
  const double device_hours = seconds / hour * static_cast<double>(plan.ranks());
  return {
      Question::run,
      fmt::format("{} tokens take {} on {}: {} tokens/s, {} device hours", count_text(run_tokens),
                  duration_text(seconds), counted(plan.ranks(), "device"), grouped(per_second),
                  device_hours < 100 ? number_text(device_hours) : grouped(device_hours)),
      {{"run_s", seconds}, {"tokens_per_s", per_second}, {"device_hours", device_hours}}};
}

Answer scaling(const PlanCase& plan) {
  Answer a{Question::efficiency, "weak scaling,", {}};
  for (const int ranks : scaling_ranks(plan)) {
    const double efficiency = weak_efficiency(plan, ranks);
    constexpr int fourfold = 2;  // the text has every second power of two
    a.values.push_back({fmt::format("efficiency_{}", ranks), efficiency});
    if (a.values.size() % fourfold == 0) continue;
    a.text += fmt::format(" {}: {:.1f}%", grouped(ranks), 100 * efficiency);
  }
  if (weak_efficiency(plan, 2 * plan.tensor) > 1) a.text += " (updates of shards are shorter)";
  return a;
}

}  // namespace

Answer answer(const PlanCase& plan, Question question, double run_tokens) {
  switch (question) {
    case Question::largest_batch: {
      constexpr std::int64_t most = 1 << 20;
      return largest_that_fits(plan, question, &ModelFactors::batch_size, most, "sequence");
    }
    case Question::largest_context: {
      constexpr std::int64_t most = 1 << 24;
      return largest_that_fits(plan, question, &ModelFactors::context, most, "token");
    }
    case Question::fewest_devices: return fewest_devices(plan);
    case Question::memory: return memory_by_kind(plan);
    case Question::kept_gathers: return kept_gathers(plan);
    case Question::gradient_dtype: return gradient_dtype(plan);
    case Question::compute_bound: return compute_bound_batch(plan);
    case Question::best_bucket: return best_bucket(plan);
    case Question::link_bandwidth: return twice_the_bandwidth(plan);
    case Question::run: return training_run(plan, run_tokens);
    case Question::efficiency: return scaling(plan);
  }
  throw InternalError("unknown question");
}

std::string answers_text(const std::vector<Answer>& answers) {
  std::string text;
  for (const Answer& a : answers) text += fmt::format("{}: {}\n", name_of(a.question), a.text);
  return text;
}

std::string answers_json(const std::vector<Answer>& answers) {
  std::string text;
  for (const Answer& a : answers) {
    Row row = {{"question", std::string(name_of(a.question))}};
    row.insert(row.end(), a.values.begin(), a.values.end());
    text += json_line(row) + '\n';
  }
  return text;
}

}  // namespace paceline
