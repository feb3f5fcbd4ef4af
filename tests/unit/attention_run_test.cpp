// AttentionRun: memory equals the closed forms, and phases leave nothing allocated.

#include "experiments/attention/attention_run.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cpu/cpu_device.h"
#include "model/accounting.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

TEST(AttentionRunTest, MemoryIsThatOfTheClosedForms) {
  for (const AttentionKind kind :
       {AttentionKind::naive, AttentionKind::fused, AttentionKind::flash}) {
    for (const char* precision : {"fp32", "bf16"}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << " " << precision);
      const OpsConfig config{.precision = precision_named(precision), .attention = kind};
      const AttentionShape shape{2, 128, 3, 64, true};
      CpuDevice device(plenty, 2);
      AttentionRun run(device, config, shape, CacheState::cold);
      run.load(AttentionInputs(shape, config.precision.compute, 1, 0));
      const AttentionBytes bytes = run.rehearse();
      const AttentionMemory form = attention_memory(kind, config.precision, shape, true);
      EXPECT_EQ(static_cast<double>(bytes.saved), form.saved);
      EXPECT_EQ(static_cast<double>(bytes.before_backward), form.before_backward);
      EXPECT_NEAR(static_cast<double>(bytes.peak), form.peak(), 0.02 * form.peak());
      EXPECT_LE(bytes.workspace, bytes.peak);
    }
  }
}

// Records the launches of its graphs, and the scopes in which memory is allocated.
class RecordingDevice final : public CpuDevice {
 public:
  RecordingDevice() : CpuDevice(plenty, 1) {}

  std::unique_ptr<Graph> capture(Stream& stream, std::function<void()> work) override {
    return std::make_unique<RecordingGraph>(*this, captured++,
                                            CpuDevice::capture(stream, std::move(work)));
  }
  Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override {
    const std::string& path = scopes().path();
    (launched_now < 0 ? outside : scopes_of[launched_now]).insert(path.substr(0, path.find('/')));
    return CpuDevice::allocate(shape, dtype, kind);
  }

  int captured = 0;
  std::vector<int> launches;                       // numbers of the launched graphs
  std::map<int, std::set<std::string>> scopes_of;  // outermost scopes of each graph's allocations
  std::set<std::string> outside;                   // outermost scopes of allocations outside graphs

 private:
  class RecordingGraph final : public Graph {
   public:
    RecordingGraph(RecordingDevice& device, int number, std::unique_ptr<Graph> graph)
        : device_(device), number_(number), graph_(std::move(graph)) {}
    void launch() override {
      device_.launches.push_back(number_);
      device_.launched_now = number_;
      graph_->launch();
      device_.launched_now = -1;
    }

   private:
    RecordingDevice& device_;
    int number_;
    std::unique_ptr<Graph> graph_;
  };

  int launched_now = -1;
};

// After capture(), a repetition launches only graphs: an untimed forward's, then those of the three
// phases. Each contains its phase's work.
TEST(AttentionRunTest, RepetitionsReplayTheCapturedGraphs) {
  const AttentionShape shape{1, 20, 2, 16, true};
  const OpsConfig config{.precision = precision_named("fp32"), .attention = AttentionKind::flash};
  RecordingDevice device;
  AttentionRun run(device, config, shape, CacheState::warm);
  run.load(AttentionInputs(shape, Dtype::f32, 1, 0));
  (void)run.rehearse();
  device.freeze();
  (void)run.repetition();
  EXPECT_TRUE(device.launches.empty()) << "before it is captured";

  run.capture();
  EXPECT_EQ(device.captured, 4);
  device.outside.clear();
  EXPECT_EQ(run.repetition().size(), 3U);
  EXPECT_EQ(device.launches, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(device.outside.empty()) << "a phase ran beside its graph";
  EXPECT_EQ(device.scopes_of[0], (std::set<std::string>{"warm-up"}));
  EXPECT_EQ(device.scopes_of[1], (std::set<std::string>{"forward"}));
  EXPECT_EQ(device.scopes_of[2], (std::set<std::string>{"backward"}));
  EXPECT_EQ(device.scopes_of[3], (std::set<std::string>{"both"}));
}

}  // namespace
}  // namespace paceline
