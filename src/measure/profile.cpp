#include "measure/profile.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/kernel_name.h"
#include "measure/step_trace.h"

namespace paceline {

namespace {

bool is_block(std::string_view name) {
  constexpr std::string_view block = "block ";
  return name.starts_with(block) && name.size() > block.size() &&
         std::all_of(name.begin() + block.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// A path and its enclosing paths, the outermost first; "block 3" becomes "blocks".
std::vector<std::string> nested_paths(const std::string& path) {
  std::vector<std::string> paths;
  std::string whole;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    if (!whole.empty()) whole += '/';
    whole += is_block(name) ? "blocks" : name;
    paths.push_back(whole);
    begin = end + 1;
  }
  return paths;
}

std::string_view outermost(std::string_view path) { return path.substr(0, path.find('/')); }
std::string_view innermost(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_on_device(const StepActivity& activity) {
  return activity.kind != ActivityKind::launch && activity.kind != ActivityKind::call;
}

bool is_within_operation(const StepTrace& trace, const StepSpan& span) {
  for (int outer = span.outer; outer >= 0;) {
    const StepSpan& around = trace.spans[static_cast<std::size_t>(outer)];
    if (around.operation) return true;
    outer = around.outer;
  }
  return false;
}

// The totals of every scope.
std::vector<ScopeUse> scopes_of(const StepTrace& trace) {
  const auto steps = static_cast<double>(trace.steps.size());
  std::vector<ScopeUse> uses;
  std::map<std::string, std::size_t> known;  // index in `uses` by path
  std::vector<std::vector<std::size_t>> by_scope(trace.paths.size());
  // Indices in `uses` of a scope and of its enclosing scopes. New scopes are appended.
  const auto places_of = [&](ScopeId scope) -> const std::vector<std::size_t>& {
    std::vector<std::size_t>& places = by_scope[scope];
    if (!places.empty()) return places;
    for (const std::string& path : nested_paths(trace.paths[scope])) {
      const auto [place, is_new] = known.emplace(path, uses.size());
      if (is_new) uses.push_back({.path = path});
      places.push_back(place->second);
    }
    return places;
  };
  for (const StepSpan& span : trace.spans) {
    const std::vector<std::size_t>& places = places_of(span.scope);
    if (places.empty()) continue;
    const double weight = span.step == captured ? 1 : 1 / steps;  // launched once in each step
    ScopeUse& use = uses[places.back()];
    use.calls += weight;
    use.is_operation = use.is_operation || span.operation;
    if (!span.operation) continue;
    // Collectives, and operations within another, count to their own scope alone.
    const bool is_apart = span.work.elements > 0 || is_within_operation(trace, span);
    for (std::size_t i = is_apart ? places.size() - 1 : 0; i < places.size(); ++i) {
      uses[places[i]].flops += weight * span.work.flops;
      uses[places[i]].bytes += weight * span.work.bytes;
    }
  }
  for (const StepActivity& activity : trace.activities) {
    if (!is_on_device(activity) || activity.span < 0) continue;
    const std::vector<std::size_t>& places =
        places_of(trace.spans[static_cast<std::size_t>(activity.span)].scope);
    // A collective runs beside the scope that launched it and waits for other ranks.
    const std::size_t first = trace.communicates(activity) ? places.size() - 1 : 0;
    for (std::size_t i = first; i < places.size(); ++i) {
      uses[places[i]].seconds += (activity.end - activity.begin) / steps;
    }
  }
  return uses;
}

std::vector<KernelUse> kernels_of(const StepTrace& trace) {
  const auto steps = static_cast<double>(trace.steps.size());
  std::vector<std::string> names;
  for (const std::string& name : trace.names) names.push_back(short_kernel_name(name));
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  std::map<Key, KernelUse> uses;
  const auto use_of = [&](const StepActivity& activity) -> KernelUse& {
    const std::string_view path = trace.path_of(activity);
    const Key key{outermost(path), innermost(path), names[static_cast<std::size_t>(activity.name)]};
    return uses[key];
  };
  // The longest kernel of each launch of an operation, by span and step.
  std::map<std::pair<int, int>, const StepActivity*> longest;
  for (const StepActivity& activity : trace.activities) {
    if (!is_on_device(activity)) continue;
    KernelUse& use = use_of(activity);
    use.communicates = trace.communicates(activity);
    use.calls += 1 / steps;
    use.seconds += (activity.end - activity.begin) / steps;
    if (activity.span < 0) continue;
    const StepActivity*& most = longest[{activity.span, activity.step}];
    const auto length = [](const StepActivity& a) { return a.end - a.begin; };
    if (most == nullptr || length(activity) > length(*most)) most = &activity;
  }
  for (const auto& [launch, activity] : longest) {
    const OpWork& work = trace.spans[static_cast<std::size_t>(launch.first)].work;
    KernelUse& use = use_of(*activity);
    use.flops += work.flops / steps;
    use.bytes += work.bytes / steps;
  }
  std::vector<KernelUse> kernels;
  for (auto& [key, use] : uses) {
    std::tie(use.phase, use.operation, use.kernel) = key;
    kernels.push_back(std::move(use));
  }
  return kernels;
}

void sort_by_cost(std::vector<KernelUse>& kernels) {
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const KernelUse& a, const KernelUse& b) { return a.seconds > b.seconds; });
}

std::vector<PhaseUse> phases_of(const StepTrace& trace, const std::vector<KernelUse>& kernels) {
  const auto steps = static_cast<double>(trace.steps.size());
  std::vector<std::string> names;
  std::map<std::string_view, std::vector<std::vector<Interval>>> running;  // [phase][step]
  for (const StepActivity& activity : trace.activities) {
    if (!is_on_device(activity)) continue;
    const std::string_view phase = outermost(trace.path_of(activity));
    if (std::find(names.begin(), names.end(), phase) == names.end()) names.emplace_back(phase);
    for (const std::string_view part : {phase, std::string_view("step")}) {
      if (part == phase && trace.communicates(activity)) continue;
      std::vector<std::vector<Interval>>& of_part = running[part];
      of_part.resize(trace.steps.size());
      of_part[static_cast<std::size_t>(activity.step)].push_back({activity.begin, activity.end});
    }
  }
  names.emplace_back("step");
  std::vector<PhaseUse> phases;
  for (const std::string& name : names) {
    PhaseUse& use = phases.emplace_back();
    use.phase = name;
    for (const std::vector<Interval>& step : running[name]) {
      const std::vector<Interval> disjoint = union_of(step);
      if (disjoint.empty()) continue;
      use.extent += (disjoint.back().end - disjoint.front().begin) / steps;
      use.busy += length_of(disjoint) / steps;
    }
    for (const KernelUse& kernel : kernels) {
      if (name != "step" && (kernel.phase != name || kernel.communicates)) continue;
      use.kernels += kernel.seconds;
      if (kernel.is_product()) use.products += kernel.seconds;
    }
  }
  return phases;
}

}  // namespace

StepProfile profile_of(const StepTrace& trace) {
  StepProfile profile{.kernels = kernels_of(trace), .scopes = scopes_of(trace)};
  sort_by_cost(profile.kernels);
  profile.phases = phases_of(trace, profile.kernels);
  return profile;
}

std::vector<KernelUse> by_kernel(const StepProfile& profile,
                                 const std::vector<std::string_view>& phases) {
  std::vector<KernelUse> kernels;
  for (const KernelUse& use : profile.kernels) {
    const bool asked = std::find(phases.begin(), phases.end(), use.phase) != phases.end();
    if (!asked || use.communicates) continue;
    const auto same = std::find_if(kernels.begin(), kernels.end(), [&](const KernelUse& other) {
      return other.kernel == use.kernel;
    });
    if (same == kernels.end()) {
      kernels.push_back(use);
      continue;
    }
    same->calls += use.calls;
    same->seconds += use.seconds;
    same->flops += use.flops;
    same->bytes += use.bytes;
  }
  sort_by_cost(kernels);
  return kernels;
}

}  // namespace paceline
