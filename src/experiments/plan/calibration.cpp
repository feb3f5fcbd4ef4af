#include "experiments/plan/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/data_sheet.h"
#include "core/ring.h"
#include "experiments/plan/step_time.h"
#include "measure/statistics.h"
#include "record/hdf5.h"
#include "record/result_file.h"

namespace paceline {

namespace {

std::string device_of(const PlanCase& plan) {
  return plan.hardware.name.empty() ? std::string(name_of(plan.step.device)) : plan.hardware.name;
}

// Whether `device` is that of the name: "NVIDIA H200" is the data sheets' h200.
bool is_named(const std::string& device, const std::string& name) {
  const DataSheet* sheet = data_sheet_of(device);
  return device == name || (sheet != nullptr && !name.empty() && sheet->name == name);
}

bool is_device(const std::string& device, const PlanCase& plan) {
  return is_named(device, device_of(plan));
}

// The data sheet's rates, as upper bounds of the fit; unlimited for a device not in the table.
WorkRates limits_of(const PlanCase& plan) {
  WorkRates limits = unlimited;
  for (const Hardware& h : known_hardware()) {
    if (!is_named(device_of(plan), h.name) || !h.has_peak(plan.step.precision)) continue;
    limits.projection_flops_per_s = limits.feed_forward_flops_per_s = limits.head_flops_per_s =
        h.peak_flops_per_s(plan.step.precision);
    limits.attention_flops_per_s = h.attention_flops_per_s(plan.step.ops_config());
    limits.parameter_bytes_per_s = limits.activation_bytes_per_s = h.memory_bytes_per_s;
  }
  return limits;
}

std::string group_of(const PlanCase& plan) {
  return fmt::format("{} {} {} {}", name_of(plan.step.device), plan.step.precision.name,
                     name_of(plan.step.attention), name_of(plan.step.execution));
}

std::string size_of_model(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  return fmt::format("D {}, F {}, L {}, H {}, V {}", c.d_model, c.d_ff, c.layers, c.heads, c.vocab);
}

bool exchanges_nothing(const PlanCase& plan) {
  return plan.ranks() == 1 || plan.step.strategy == Strategy::none;
}

bool is_plain_step(const PlanCase& plan) {
  return plan.step.mode == Mode::train_step && plan.step.optimizer == OptimizerOrder::serial;
}

// The latency between two ranks: a tree of n ranks takes ceil(log2 n) times as long.
double latency_of_two(const FittedLink& link) {
  return link.link.latency / std::ceil(std::log2(static_cast<double>(link.ranks)));
}
double sent_bytes_per_s(const FittedLink& link) {
  return link.link.bandwidth * ring_share(link.op, static_cast<double>(link.ranks));
}

// The collectives of parallel strategies other than all_reduce.
constexpr std::array<std::string_view, 3> other_ops = {"reduce_scatter", "all_gather", "broadcast"};

// The number of ranks to look for in the fits: at least 2, since the rows of weak scaling have
// collectives even if the plan has one data-parallel rank.
int fitted_ranks(const PlanCase& plan) { return std::max(2, plan.data_ranks()); }

// What the collectives of an operation carry: gradients, or parameters.
std::string_view exchanged_dtype(std::string_view op, const PlanCase& plan) {
  const Precision precision = plan.strategy_shape().precision;
  const bool parameters = op == "all_gather" || op == "broadcast";
  return name_of(parameters ? precision.compute : precision.communication);
}

// In what a fit differs from the collectives of the plan.
std::vector<std::string> other_settings(const FittedLink& link, const PlanCase& plan) {
  std::vector<std::string> texts;
  const std::string_view dtype = exchanged_dtype(link.op, plan);
  if (link.dtype != dtype) {
    texts.push_back(fmt::format("collectives of {}, fitted with {}", dtype, link.dtype));
  }
  if (link.redop != "sum") {
    texts.push_back(fmt::format("collectives that sum, fitted with {}", link.redop));
  }
  if (link.cache != "warm") {
    texts.push_back(fmt::format("collectives in a warm cache, fitted in a {} one", link.cache));
  }
  return texts;
}

}  // namespace

Calibration::Calibration(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (experiment_in(file) == "collectives") {
      const auto all_reduce_fits = [&] {
        return std::count_if(links_.begin(), links_.end(),
                             [](const FittedLink& link) { return link.op == "all_reduce"; });
      };
      const auto before = all_reduce_fits();
      try {
        for (FittedLink& link : read_fitted_links(file)) {
          if (link.ranks > 1) links_.push_back(std::move(link));
        }
      } catch (const Hdf5Error&) {
        throw UsageError(fmt::format("--from: {} holds no fit; measure it with --fit", file));
      }
      if (all_reduce_fits() == before) {
        throw UsageError(fmt::format(
            "{}: holds no fit of all_reduce on 2 ranks or more; measure one with --fit", file));
      }
      link_devices_.insert(device_in_file(file));
      continue;
    }
    for (MeasuredStep& step : read_measured_steps(file)) steps_.push_back(std::move(step));
  }
  fit_steps();
  fit_contention();
}

Calibration::Calibration(std::vector<MeasuredStep> steps, std::vector<FittedLink> links)
    : steps_(std::move(steps)), links_(std::move(links)) {
  fit_steps();
  fit_contention();
}

Calibration Calibration::without(const PlanCase& plan) const {
  std::vector<MeasuredStep> others = steps_;
  std::erase_if(others, [&](const MeasuredStep& s) { return is_same_plan(s.plan, plan); });
  return {std::move(others), links_};
}

void Calibration::fit_steps() {
  std::map<GroupKey, std::vector<TimedWork>> timed;
  std::map<GroupKey, WorkRates> limits;
  const auto is_used = [](const MeasuredStep& s) {
    return exchanges_nothing(s.plan) && is_plain_step(s.plan);
  };
  for (const MeasuredStep& s : steps_) {
    if (!is_used(s)) continue;
    const GroupKey key = key_of(s.plan);
    timed[key].push_back({s.plan.work(), s.step_s});
    timed[key].insert(timed[key].end(), s.profiled.begin(), s.profiled.end());
    if (limits.count(key) == 0) limits[key] = limits_of(s.plan);
  }
  for (const auto& [key, rows] : timed) groups_[key].rates = fit_rates(rows, limits.at(key));
  for (const MeasuredStep& s : steps_) {
    if (!is_used(s)) continue;
    Group& group = groups_.at(key_of(s.plan));
    group.by_size[size_of_model(s.plan)].push_back(
        {s.plan.group_tokens(), s.step_s / group.rates.seconds(s.plan.work())});
  }
  for (auto& [_, group] : groups_) {
    for (auto& [size, points] : group.by_size) {
      std::sort(points.begin(), points.end(),
                [](const Point& a, const Point& b) { return a.tokens < b.tokens; });
    }
  }
}

void Calibration::fit_contention() {
  std::map<DeviceKind, std::vector<double>> parts;
  for (const MeasuredStep& s : steps_) {
    if (exchanges_nothing(s.plan) || !is_plain_step(s.plan) || !rates_for(s.plan)) continue;
    const PlanCase plan = calibrated(s.plan, *this);
    const StepTime t = step_time(plan);
    const double hidden = t.exchange_s - t.exposed_s;
    if (hidden <= t.exposed_s) continue;  // too little overlap to measure contention
    parts[s.plan.step.device].push_back(std::max(0.0, (s.step_s - t.step_s()) / hidden));
  }
  for (const auto& [kind, of_kind] : parts) contention_[kind] = summarize(of_kind).median;
}

Calibration::GroupKey Calibration::key_of(const PlanCase& plan) {
  return {device_of(plan), group_of(plan)};
}

Calibration::Groups::const_iterator Calibration::group_for(const PlanCase& plan) const {
  const std::string group = group_of(plan);
  const auto first = [&](auto&& accepts) {
    return std::find_if(groups_.begin(), groups_.end(), [&](const auto& entry) {
      return entry.first.second == group && accepts(entry.first.first);
    });
  };
  const auto same = first([&](const std::string& device) { return is_device(device, plan); });
  if (same != groups_.end()) return same;
  return first([](const std::string&) { return true; });
}

std::optional<double> Calibration::contention_for(const PlanCase& plan) const {
  const auto found = contention_.find(plan.step.device);
  if (found == contention_.end()) return std::nullopt;
  return found->second;
}

const std::vector<Calibration::Point>* Calibration::points_for(const PlanCase& plan) const {
  const auto group = group_for(plan);
  if (group == groups_.end()) return nullptr;
  const auto points = group->second.by_size.find(size_of_model(plan));
  return points == group->second.by_size.end() ? nullptr : &points->second;
}

std::optional<Calibration::StepRates> Calibration::rates_for(const PlanCase& plan) const {
  const auto group = group_for(plan);
  if (group == groups_.end()) return std::nullopt;
  StepRates rates{.rates = group->second.rates};
  const std::vector<Point>* points = points_for(plan);
  if (!points) return rates;
  const double tokens = plan.group_tokens();
  const auto above = std::lower_bound(points->begin(), points->end(), tokens,
                                      [](const Point& p, double t) { return p.tokens < t; });
  if (above == points->begin() || above == points->end()) {
    rates.correction = above == points->end() ? points->back().ratio : above->ratio;
    return rates;
  }
  const Point& below = *(above - 1);
  const double part = std::log(tokens / below.tokens) / std::log(above->tokens / below.tokens);
  rates.correction = below.ratio + part * (above->ratio - below.ratio);
  return rates;
}

std::optional<FittedLink> Calibration::link_for(std::string_view op, const PlanCase& plan) const {
  const FittedLink* best = nullptr;
  const double ranks = fitted_ranks(plan);
  const std::string_view dtype = exchanged_dtype(op, plan);
  const auto order = [&](const FittedLink& f) {
    // Prefer NCCL, then the nearest number of ranks, then the settings that training steps use.
    return std::tuple(f.backend != "nccl", std::abs(std::log(static_cast<double>(f.ranks) / ranks)),
                      f.dtype != dtype, distance_from_training(f), f.dtype);
  };
  for (const FittedLink& f : links_) {
    if (f.op == op && (!best || order(f) < order(*best))) best = &f;
  }
  if (!best) return std::nullopt;
  require_finite_bandwidth(*best, "--from");
  return *best;
}

std::vector<std::string> Calibration::extrapolations(const PlanCase& plan) const {
  std::vector<std::string> all;
  if (!rates_for(plan)) {
    all.push_back(
        fmt::format("no step of {} was measured: the data sheet's rates", group_of(plan)));
  } else if (const std::vector<Point>* points = points_for(plan); !points) {
    all.push_back(
        fmt::format("no step of {} was measured: rates of other sizes", size_of_model(plan)));
  } else {
    const double tokens = plan.group_tokens();
    if (tokens < points->front().tokens || tokens > points->back().tokens) {
      all.push_back(fmt::format("{} tokens a rank, measured {} to {}", tokens,
                                points->front().tokens, points->back().tokens));
    }
  }
  const std::optional<FittedLink> link = link_for("all_reduce", plan);
  if (!link) {
    all.emplace_back("no collective was fitted: the data sheet's bandwidth");
  } else {
    if (plan.data_ranks() > 1 && link->ranks != plan.data_ranks()) {
      all.push_back(
          fmt::format("collectives of {} ranks, fitted on {}", plan.data_ranks(), link->ranks));
    }
    for (const std::string& setting : other_settings(*link, plan)) {
      all.push_back(setting);
    }
    all.push_back(
        fmt::format("weak scaling on other ranks: collectives fitted on {}", link->ranks));
  }
  if (!contention_for(plan)) all.emplace_back("no contention was measured: 0");
  const std::vector<std::string> devices = other_devices(plan);
  all.insert(all.end(), devices.begin(), devices.end());
  return all;
}

std::vector<std::string> Calibration::other_devices(const PlanCase& plan) const {
  std::set<std::string> devices;
  for (const auto& [key, _] : groups_) {
    if (!is_device(key.first, plan)) devices.insert(key.first);
  }
  const auto used = group_for(plan);
  std::vector<std::string> texts;
  for (const std::string& device : devices) {
    const bool is_used = used != groups_.end() && used->first.first == device;
    texts.push_back(fmt::format("rates of {}, not of {}{}", device, device_of(plan),
                                is_used ? "" : ": not used"));
  }
  for (const std::string& device : link_devices_) {
    if (is_device(device, plan)) continue;
    texts.push_back(fmt::format("links of {}, not of {}", device, device_of(plan)));
  }
  return texts;
}

PlanCase calibrated(const PlanCase& plan, const Calibration& calibration) {
  PlanCase result = plan;
  if (const auto rates = calibration.rates_for(plan)) {
    result.rates = rates->rates;
    result.correction = rates->correction;
  }
  if (const auto all_reduce = calibration.link_for("all_reduce", plan)) {
    result.link_file = all_reduce->file;
    result.latency_s = latency_of_two(*all_reduce);
    result.hardware.link_bytes_per_s = sent_bytes_per_s(*all_reduce);
    const bool across_nodes = all_reduce->ranks > plan.hardware.node_devices;
    if (across_nodes || plan.hardware.network_bytes_per_s == 0) {
      result.hardware.network_bytes_per_s = result.hardware.link_bytes_per_s;
    }
    for (const std::string_view op : other_ops) {
      const auto fitted = calibration.link_for(op, plan);
      if (!fitted || fitted->backend != all_reduce->backend || fitted->ranks != all_reduce->ranks) {
        continue;
      }
      result.measured_ops[std::string(op)] = {
          .latency_s = latency_of_two(*fitted),
          .bandwidth_ratio = sent_bytes_per_s(*fitted) / sent_bytes_per_s(*all_reduce)};
    }
  }
  result.contention = calibration.contention_for(plan).value_or(0);
  return result;
}

}  // namespace paceline
