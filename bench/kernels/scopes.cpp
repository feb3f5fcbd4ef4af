// The host time of scopes: a region and an operation in it, entered as in a step, without and with
// a profiler.

#include "bench/kernels/suite.h"
#include "core/profiler.h"

namespace paceline {

namespace {

constexpr int blocks = 32;

// Two scopes for each block of a forward pass.
void enter_scopes(ScopeStack& scopes, const std::vector<std::string>& names) {
  const Scope pass(scopes, "forward");
  for (const std::string& name : names) {
    const Scope block(scopes, name);
    const Scope operation(scopes, "matmul", OpWork{.flops = 1, .bytes = 1});
  }
}

void time_scopes(benchmark::State& state, Device& device, bool listened) {
  std::vector<std::string> names;
  for (int i = 0; i < blocks; ++i) names.push_back("block " + std::to_string(i));
  ScopeStack& scopes = device.scopes();
  std::unique_ptr<SpanRecorder> recorder;
  constexpr std::size_t max_spans = 1'000'000;
  for (auto _ : state) {
    if (listened && (!recorder || recorder->spans().size() > max_spans)) {
      state.PauseTiming();
      recorder.reset();
      recorder = std::make_unique<SpanRecorder>(scopes);
      state.ResumeTiming();
    }
    enter_scopes(scopes, names);
  }
}

}  // namespace

void add_scopes(Device& device) {
  for (const bool listened : {false, true}) {
    const char* name = listened ? "scopes/65/recorded" : "scopes/65/unheard";
    benchmark::RegisterBenchmark(name, [&device, listened](benchmark::State& state) {
      time_scopes(state, device, listened);
    });
  }
}

}  // namespace paceline
