// The check of `attention` against its float64 reference: correct results pass, wrong ones do not.

#include "experiments/attention/attention_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cpu/cpu_device.h"
#include "experiments/attention/attention_run.h"
#include "model/accounting.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

OpsConfig flash_with(const char* precision, Fp32Attention products) {
  return {.precision = precision_named(precision),
          .attention = AttentionKind::flash,
          .fp32_attention = products};
}

// Results of the CPU's flash attention; dO is 0 except in some query rows.
struct CheckedRun {
  CheckedRun(const AttentionShape& shape, std::vector<std::int64_t> of_rows,
             const OpsConfig& of = flash_with("fp32", Fp32Attention::exact), std::uint64_t seed = 3)
      : config(of),
        device(plenty, 2),
        inputs(shape, of.precision.compute, seed, 0),
        rows(std::move(of_rows)) {
    AttentionRun run(device, config, shape, CacheState::warm);
    run.load(inputs);
    run.load_gradient(gradient_of_rows(inputs, rows));
    results = run.results();
  }
  // Names of the outputs that fail.
  [[nodiscard]] std::set<std::string> failures(const AttentionResults& got) const {
    std::set<std::string> names;
    for (const OutputError& e : attention_errors(inputs, rows, got, config)) {
      if (!e.passed()) names.insert(e.output);
    }
    return names;
  }

  OpsConfig config;
  CpuDevice device;
  AttentionInputs inputs;
  std::vector<std::int64_t> rows;
  AttentionResults results;
};

using Names = std::set<std::string>;

TEST(AttentionCheckTest, CorrectResultsPass) {
  for (const bool causal : {false, true}) {
    const AttentionShape shape{2, 131, 3, 20, causal};
    const CheckedRun all(shape, checked_rows(shape, 1));
    EXPECT_EQ(all.rows.size(), 131U);
    EXPECT_EQ(all.failures(all.results), Names{});
    const CheckedRun some(shape, {0, 3, 64, 130});
    EXPECT_EQ(some.failures(some.results), Names{});
  }
  const AttentionShape one{2, 1, 1, 8, true};
  const CheckedRun single(one, {0});
  EXPECT_EQ(single.failures(single.results), Names{});
}

// With few elements per head, rounding errors of a score do not average out.
TEST(AttentionCheckTest, NarrowHeadsPass) {
  const std::vector<OpsConfig> configs = {
      flash_with("fp32", Fp32Attention::bf16x3), flash_with("fp32", Fp32Attention::tf32),
      flash_with("bf16", Fp32Attention::bf16x3), flash_with("fp16", Fp32Attention::bf16x3)};
  for (const OpsConfig& config : configs) {
    for (const std::int64_t head_dim : {1, 2, 3, 4, 8}) {
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const AttentionShape shape{1, 65, 1, head_dim, seed % 2 == 0};
        const CheckedRun c(shape, checked_rows(shape, 1), config, seed);
        EXPECT_EQ(c.failures(c.results), Names{})
            << config.precision.name << " " << head_dim << " elements, seed " << seed;
      }
    }
  }
}

TEST(AttentionCheckTest, BarsAreWiderForNarrowHeadsAlone) {
  const auto tolerance = [](std::int64_t head_dim) {
    const AttentionShape shape{1, 8, 1, head_dim, false};
    const CheckedRun c(shape, checked_rows(shape, 1), flash_with("bf16", Fp32Attention::bf16x3));
    return attention_errors(c.inputs, c.rows, c.results, c.config).front().tolerance;
  };
  EXPECT_DOUBLE_EQ(tolerance(64), 5e-3);
  EXPECT_DOUBLE_EQ(tolerance(16), 1.5 * 5e-3);
  EXPECT_DOUBLE_EQ(tolerance(1), 6 * 5e-3);
}

TEST(AttentionCheckTest, ResultsOfTheNextCoarserArithmeticFail) {
  const OpsConfig exact = flash_with("fp32", Fp32Attention::exact);
  const OpsConfig split = flash_with("fp32", Fp32Attention::bf16x3);
  const OpsConfig tf32 = flash_with("fp32", Fp32Attention::tf32);
  const OpsConfig bf16 = flash_with("bf16", Fp32Attention::exact);
  const OpsConfig fp16 = flash_with("fp16", Fp32Attention::exact);
  const AttentionShape shape{1, 131, 2, 64, true};
  for (const auto& [of, judged_as] : {std::pair(split, exact), std::pair(tf32, split),
                                      std::pair(bf16, tf32), std::pair(bf16, fp16)}) {
    CheckedRun run(shape, checked_rows(shape, 1), of);
    run.config = judged_as;
    const Names failed = run.failures(run.results);
    EXPECT_TRUE(failed.contains("o")) << of.precision.name;
    EXPECT_TRUE(failed.contains("dk")) << of.precision.name;
  }
}

// An error far below the largest element is found in any checked query row and in any key row.
TEST(AttentionCheckTest, WrongResultsFail) {
  const AttentionShape shape{2, 131, 3, 20, true};
  const CheckedRun c(shape, {0, 3, 64, 130});
  const auto row = [&](std::int64_t b, std::int64_t t) { return b * shape.context + t; };
  const std::int64_t width = shape.heads * shape.head_dim;
  const auto with = [&](auto change) {
    AttentionResults broken = c.results;
    change(broken);
    return c.failures(broken);
  };
  const auto off = [](std::vector<float>& x, std::int64_t i) {
    x[static_cast<std::size_t>(i)] += 0.01F;
  };
  EXPECT_EQ(with([&](auto& r) { off(r.o, row(1, 64) * width + width - 1); }),
            (Names{"o", "o_row"}));
  EXPECT_EQ(with([&](auto& r) { off(r.o, row(1, 65) * width); }), Names{}) << "not checked";
  for (const std::int64_t t : {3, 65}) {  // a row without a gradient has dQ = 0
    EXPECT_EQ(with([&](auto& r) { off(r.dqkv, row(1, t) * 3 * width); }), (Names{"dq", "dq_row"}));
    EXPECT_EQ(with([&](auto& r) { off(r.dqkv, (row(1, t) * 3 + 1) * width); }),
              (Names{"dk", "dk_row"}));
    EXPECT_EQ(with([&](auto& r) { off(r.dqkv, (row(1, t) * 3 + 2) * width); }),
              (Names{"dv", "dv_row"}));
  }
  EXPECT_EQ(with([&](auto& r) { off(r.logsumexp, 5 * shape.context + 130); }), Names{"logsumexp"});
}

TEST(AttentionCheckTest, NanFailsInEveryOutput) {
  const AttentionShape shape{1, 20, 1, 4, false};
  const CheckedRun c(shape, checked_rows(shape, 1));
  AttentionResults broken = c.results;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::vector<float>* x : {&broken.o, &broken.logsumexp, &broken.dqkv}) {
    std::fill(x->begin(), x->end(), nan);
  }
  EXPECT_EQ(c.failures(broken),
            (Names{"o", "o_row", "logsumexp", "dq", "dq_row", "dk", "dk_row", "dv", "dv_row"}));
}

// One head of several has a row that is twice what it should be, of O or of dV.
TEST(AttentionCheckTest, OneWrongRowAtAnEdgeFails) {
  for (const AttentionShape shape :
       {AttentionShape{1, 200, 4, 16, true}, AttentionShape{1, 65, 2, 8, false},
        AttentionShape{2, 129, 1, 32, true}, AttentionShape{3, 128, 2, 8, true}}) {
    const CheckedRun c(shape, checked_rows(shape, 1), flash_with("bf16", Fp32Attention::exact));
    ASSERT_EQ(c.failures(c.results), Names{}) << shape.context;
    const auto doubled = [&](std::vector<float> AttentionResults::*output, std::int64_t row) {
      AttentionResults broken = c.results;
      const std::int64_t first = row * shape.heads * shape.head_dim;
      for (std::int64_t i = first; i < first + shape.head_dim; ++i) {
        (broken.*output)[static_cast<std::size_t>(i)] *= 2;
      }
      return c.failures(broken);
    };
    for (const std::int64_t row :
         {std::int64_t{0}, std::int64_t{63}, std::int64_t{64}, shape.context - 1}) {
      EXPECT_TRUE(doubled(&AttentionResults::o, row).count("o_row")) << shape.context << row;
      EXPECT_TRUE(doubled(&AttentionResults::dqkv, row * 3 + 2).count("dv_row"))
          << shape.context << " " << row;
    }
  }
}

TEST(AttentionCheckTest, LongSequencesAreSampledEverywhere) {
  const AttentionShape shape{8, 65536, 1, 128, true};
  const std::vector<std::int64_t> rows = checked_rows(shape, 1);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(std::adjacent_find(rows.begin(), rows.end()), rows.end());
  std::set<std::int64_t> strata;
  for (const std::int64_t row : rows) strata.insert(row / 128);
  EXPECT_EQ(strata.size(), 512U);
  EXPECT_LE(rows.size(), 512U + 34U);
  EXPECT_NE(rows, checked_rows(shape, 2));
}

TEST(AttentionCheckTest, LongSequencesAreCheckedAtTheirEndsAndAtEdgesOfTiles) {
  const FlashPlan tiles{.forward = {.queries = 192, .keys = 176},
                        .backward = {.queries = 80, .keys = 96}};
  for (const std::int64_t context :
       {std::int64_t{20'000}, std::int64_t{65'536}, std::int64_t{65'537}}) {
    const AttentionShape shape{8, context, 16, 128, true};
    const std::vector<std::int64_t> rows = checked_rows(shape, 1, tiles);
    const auto expect = [&](std::int64_t row) {
      EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), row)) << row;
    };
    expect(0);
    expect(context - 1);
    for (const std::int64_t size : {64, 128, 192, 176, 80, 96}) {
      for (const std::int64_t edge : {size, (context - 1) / size * size}) {
        expect(edge - 1);
        expect(edge);
      }
    }
    EXPECT_LE(static_cast<std::int64_t>(rows.size()), (context + 127) / 128 + 100);
  }
}

TEST(AttentionCheckTest, InputsAreRoundedAndDifferBetweenRanks) {
  const AttentionShape shape{1, 8, 1, 4};
  const AttentionInputs x(shape, Dtype::bf16, 1, 0);
  for (const float v : x.qkv) EXPECT_EQ(static_cast<float>(bf16(v)), v);
  EXPECT_NE(x.qkv, AttentionInputs(shape, Dtype::bf16, 1, 1).qkv);
  EXPECT_NE(x.qkv, AttentionInputs(shape, Dtype::bf16, 2, 0).qkv);
}

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
