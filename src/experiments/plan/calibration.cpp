// --rates: what was fitted to our own result files, instead of the data sheet's figures.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/communicator.h"
#include "experiments/plan/plan_case.h"

namespace paceline {

namespace {

using Points = std::vector<std::pair<double, double>>;  // tokens and ratio

// Of the planned device, or else of the first device in the file; null without rates.
const StepRates* steps_for(const PlanCase& plan, const RatesFile& file) {
  const StepRates* found = nullptr;
  for (const StepRates& steps : file.steps) {
    if (steps.group != group_of(plan)) continue;
    if (is_device(steps.device, plan.hardware.name)) return &steps;
    if (!found) found = &steps;
  }
  return found;
}

// Null if no step of this size was measured.
const Points* points_for(const PlanCase& plan, const StepRates& steps) {
  const auto found = steps.sizes.find(model_text(plan));
  return found == steps.sizes.end() || found->second.empty() ? nullptr : &found->second;
}

// Interpolated over the logarithm of the tokens, constant outside.
double ratio_at(double tokens, const Points& points) {
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const auto& point) { return point.first >= tokens; });
  if (above == points.begin()) return points.front().second;
  if (above == points.end()) return points.back().second;
  const auto& [most, ratio] = *above;
  const auto& [least, ratio_below] = *(above - 1);
  return ratio_below + std::log(tokens / least) / std::log(most / least) * (ratio - ratio_below);
}

// What the collectives of an operation carry: gradients, or parameters.
std::string_view exchanged_dtype(std::string_view op, const PlanCase& plan) {
  const Precision precision = plan.strategy_shape().precision;
  const bool parameters = op == "all_gather" || op == "broadcast";
  return name_of(parameters ? precision.compute : precision.communication);
}

// Prefers NCCL, then the nearest number of ranks, then the dtype; null without a fit. Even one rank
// looks for links: the rows of weak scaling have collectives.
const FittedLink* link_for(std::string_view op, const PlanCase& plan, const RatesFile& file) {
  const FittedLink* best = nullptr;
  const double ranks = std::max(2, plan.data_ranks());
  const auto order = [&](const FittedLink& f) {
    return std::tuple(f.backend != "nccl", std::abs(std::log(static_cast<double>(f.ranks) / ranks)),
                      f.dtype != exchanged_dtype(op, plan));
  };
  for (const FittedLink& f : file.links) {
    if (f.op == op && (!best || order(f) < order(*best))) best = &f;
  }
  return best;
}

// The latency between two ranks: a tree of n ranks takes ceil(log2 n) times as long.
double latency_of_two(const FittedLink& f) {
  return f.link.latency / std::ceil(std::log2(static_cast<double>(f.ranks)));
}
double sent_bytes_per_s(const FittedLink& f) {
  return f.link.bandwidth * ring_share(f.op, static_cast<double>(f.ranks));
}

}  // namespace

std::string group_of(const PlanCase& plan) {
  return fmt::format("{} {} {} {}", name_of(plan.step.device), plan.step.precision.name,
                     name_of(plan.step.attention), name_of(plan.step.execution));
}

std::string model_text(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  return fmt::format("D {}, F {}, L {}, H {}, V {}", c.d_model, c.d_ff, c.layers, c.heads, c.vocab);
}

PlanCase calibrated(const PlanCase& plan, const RatesFile& file) {
  PlanCase result = plan;
  if (const StepRates* steps = steps_for(plan, file)) {
    result.rates = steps->rates;
    const Points* points = points_for(plan, *steps);
    if (points) result.correction = ratio_at(plan.group_tokens(), *points);
  }
  if (const FittedLink* all_reduce = link_for("all_reduce", plan, file)) {
    result.rates_file = file.path;
    result.latency_s = latency_of_two(*all_reduce);
    result.hardware.link_gb_per_s = sent_bytes_per_s(*all_reduce) / giga;
    const bool across_nodes = all_reduce->ranks > plan.hardware.node_devices;
    if (across_nodes || plan.hardware.network_gb_per_s == 0) {
      result.hardware.network_gb_per_s = result.hardware.link_gb_per_s;
    }
    for (const char* op : {"reduce_scatter", "all_gather", "broadcast"}) {
      const FittedLink* f = link_for(op, plan, file);
      if (!f || f->backend != all_reduce->backend || f->ranks != all_reduce->ranks) continue;
      result.measured_ops[op] = {
          .latency_s = latency_of_two(*f),
          .bandwidth_ratio = sent_bytes_per_s(*f) / sent_bytes_per_s(*all_reduce)};
    }
  }
  const auto contention = file.contention.find(std::string(name_of(plan.step.device)));
  if (contention != file.contention.end()) result.contention = contention->second;
  return result;
}

std::vector<std::string> extrapolations(const PlanCase& plan, const RatesFile& file) {
  std::vector<std::string> all;
  const auto add = [&]<class... Args>(fmt::format_string<Args...> text, Args&&... args) {
    all.push_back(fmt::format(text, std::forward<Args>(args)...));
  };
  const StepRates* steps = steps_for(plan, file);
  const Points* points = steps ? points_for(plan, *steps) : nullptr;
  const double tokens = plan.group_tokens();
  if (!steps) {
    add("no step of {} was measured: the data sheet's rates", group_of(plan));
  } else if (!points) {
    add("no step of {} was measured: rates of other sizes", model_text(plan));
  } else if (tokens < points->front().first || tokens > points->back().first) {
    add("{} tokens a rank, measured {} to {}", tokens, points->front().first, points->back().first);
  }
  if (const FittedLink* link = link_for("all_reduce", plan, file)) {
    const int ranks = plan.data_ranks();
    const std::string_view dtype = exchanged_dtype("all_reduce", plan);
    if (ranks > 1 && link->ranks != ranks) {
      add("collectives of {} ranks, fitted on {}", ranks, link->ranks);
    }
    if (link->dtype != dtype) add("collectives of {}, fitted with {}", dtype, link->dtype);
    if (link->redop != "sum") add("collectives that sum, fitted with {}", link->redop);
    if (link->cache != "warm") add("collectives in a warm cache, fitted in a {} one", link->cache);
    add("weak scaling on other ranks: collectives fitted on {}", link->ranks);
  } else {
    add("no collective was fitted: the data sheet's bandwidth");
  }
  if (!file.contention.contains(std::string(name_of(plan.step.device)))) {
    add("no contention was measured: 0");
  }
  // The file's devices other than the planned one.
  const std::string& name = plan.hardware.name;
  std::set<std::string> others;
  for (const FittedLink& f : file.links) {
    if (!is_device(f.device, name)) {
      others.insert(fmt::format("links of {}, not of {}", f.device, name));
    }
  }
  for (const StepRates& rates : file.steps) {
    if (is_device(rates.device, name)) continue;
    const bool is_used = steps && steps->device == rates.device;
    others.insert(
        fmt::format("rates of {}, not of {}{}", rates.device, name, is_used ? "" : ": not used"));
  }
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace paceline
