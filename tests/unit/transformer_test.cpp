#include "model/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "cpu/cpu_device.h"
#include "model/batch.h"
#include "model/optimizer.h"
#include "model/weights_file.h"
#include "parallel/parallel_strategy.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

// Records the calls of the hooks in order.
class Recorder final : public ParallelStrategy {
 public:
  using ParallelStrategy::ParallelStrategy;
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override {
    EXPECT_TRUE(in_use.insert(id).second);
    used[pass].push_back(id);
    return ParallelStrategy::acquire(id, pass);
  }
  void release(ParameterId id, Pass pass) override {
    EXPECT_EQ(in_use.erase(id), 1U);
    EXPECT_NE(std::find(used[pass].begin(), used[pass].end(), id), used[pass].end());
  }
  void gradient_ready(ParameterId id) override { finished.push_back(id); }

  std::set<ParameterId> in_use;
  std::map<Pass, std::vector<ParameterId>> used;  // in order
  std::vector<ParameterId> finished;
};

std::vector<ParameterId> sorted(std::vector<ParameterId> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

// A small model with everything a step needs.
struct Trainer {
  explicit Trainer(const std::string& precision, int threads = 1,
                   AttentionKind attention = AttentionKind::naive)
      : Trainer(precision_named(precision), threads, attention) {}
  explicit Trainer(const Precision& precision, int threads = 1,
                   AttentionKind attention = AttentionKind::naive)
      : device(plenty, threads),
        ops(device.make_ops({.precision = precision, .attention = attention})),
        model(device, config(), precision),
        state(StepState::create(device, 2, 7, precision.loss, precision.loss_scaling, 1e-3)),
        adamw(model.store(), AdamWConfig{}, Shard::whole(model.store())),
        sync(model.store()) {
    initialise_weights(*ops, model.store(), 3);
    const Batch batch = random_batch({.rows = 2, .context = 7, .vocab = 31}, 5);
    device.to_device(state.tokens, batch.tokens.data());
    device.to_device(state.targets, batch.targets.data());
  }

  static ModelConfig config() {
    return {.vocab = 31, .context = 7, .d_model = 12, .d_ff = 20, .layers = 3, .heads = 2};
  }
  void forward(const ForwardOptions& options = {}) { model.forward(*ops, state, sync, options); }
  void backward() {
    model.store().allocate_gradients();
    model.backward(*ops, state, sync);
  }
  template <class T>
  std::vector<T> values(const Tensor& x) {
    std::vector<T> host(static_cast<std::size_t>(x.numel()));
    device.to_host(host.data(), x);
    return host;
  }
  double loss() { return values<double>(state.loss)[0]; }
  // Of a forward and a backward, which leaves no activation.
  template <class T>
  std::vector<T> gradients(const ForwardOptions& options = {}) {
    forward(options);
    backward();
    EXPECT_EQ(device.ledger().bytes(MemoryKind::activation), 0U);
    return values<T>(model.store().gradients());
  }

  CpuDevice device;
  std::unique_ptr<Ops> ops;
  Transformer model;
  StepState state;
  AdamW adamw;
  Recorder sync;
};

// Entries in full precision come last in the store.
TEST(TransformerTest, GradientsBecomeReadyInTheStoresOrderEachOnce) {
  Trainer t("fp32");
  t.forward();
  EXPECT_TRUE(t.sync.finished.empty());
  t.backward();
  std::vector<ParameterId> all(t.model.store().entries().size());
  std::iota(all.begin(), all.end(), ParameterId{0});
  std::vector<ParameterId> finished = t.sync.finished;
  std::stable_partition(finished.begin(), finished.end(), [&](ParameterId id) {
    return !t.model.store().entries()[id].full_precision;
  });
  EXPECT_EQ(finished, all);
  EXPECT_EQ(t.sync.finished.back(), all.back());
  EXPECT_EQ(t.model.store().entries().front().views.front().name, "lm_head.weight");
  EXPECT_EQ(t.model.store().entries().back().views.front().name, "token_embeddings.weight");
}

// Every parameter once per pass; in recomputation those of the blocks.
TEST(TransformerTest, EveryUseOfAParameterIsAcquiredAndReleased) {
  for (const int recompute : {0, 1, 2}) {
    Trainer t("fp32");
    std::vector<ParameterId> all(t.model.store().entries().size());
    std::iota(all.begin(), all.end(), ParameterId{0});
    t.forward({.recompute = recompute});
    EXPECT_EQ(sorted(t.sync.used[Pass::forward]), all);
    EXPECT_EQ(t.sync.used[Pass::forward].front(), all.back());  // the embedding
    t.backward();
    EXPECT_EQ(sorted(t.sync.used[Pass::backward]), all);
    EXPECT_EQ(t.sync.used[Pass::forward].size(), all.size());
    EXPECT_TRUE(t.sync.in_use.empty());
    std::vector<ParameterId> of_blocks;
    for (const ParameterId id : all) {
      const std::string& name = t.model.store().entries()[id].views.front().name;
      if (recompute > 0 && name.starts_with("layers.")) of_blocks.push_back(id);
    }
    EXPECT_EQ(sorted(t.sync.used[Pass::recompute]), of_blocks) << recompute;
  }
}

TEST(TransformerTest, EveryGradientEqualsFiniteDifferencesInFloat64) {
  Trainer t("fp64");
  const auto gradients = t.gradients<double>();
  auto* parameters = t.model.store().parameters().as<double>();
  for (const ParameterEntry& entry : t.model.store().entries()) {
    for (const ParameterView& view : entry.views) {
      const std::int64_t n = view.shape.numel();
      for (const std::int64_t k : {std::int64_t{0}, n / 3, n - 1}) {
        const auto i = static_cast<std::size_t>(entry.offset + view.offset + k);
        constexpr double h = 1e-5;
        const double kept = parameters[i];
        parameters[i] = kept + h;
        t.forward({.keep = false});
        const double above = t.loss();
        parameters[i] = kept - h;
        t.forward({.keep = false});
        const double below = t.loss();
        parameters[i] = kept;
        EXPECT_NEAR(gradients[i], (above - below) / (2 * h), 1e-8) << view.name << " " << k;
      }
    }
  }
}

TEST(TransformerTest, RecomputationChangesNoBit) {
  for (const AttentionKind attention : {AttentionKind::naive, AttentionKind::flash}) {
    Trainer plain("fp32", 1, attention);
    const auto want = plain.gradients<float>();
    for (const int every : {1, 2, 3, 5}) {
      Trainer t("fp32", 1, attention);
      EXPECT_EQ(t.gradients<float>({.recompute = every}), want) << every;
      EXPECT_EQ(t.sync.finished, plain.sync.finished);
    }
  }
  for (const char* precision : {"fp32", "bf16"}) {
    EXPECT_EQ(Trainer(precision).gradients<float>({.recompute_swiglu = true}),
              Trainer(precision).gradients<float>());
  }
}

TEST(TransformerTest, InferenceKeepsNothingAndComputesTheSame) {
  Trainer t("fp64");
  t.forward();
  const double loss = t.loss();
  EXPECT_GT(t.device.ledger().bytes(MemoryKind::activation), 0U);
  t.forward({.keep = false});
  EXPECT_EQ(t.loss(), loss);
  EXPECT_EQ(t.device.ledger().bytes(MemoryKind::activation), 0U);
}

TEST(InitialisationTest, DoesNotDependOnThreadsOrPrecision) {
  Trainer one("fp32", 1);
  Trainer two("bf16", 2);
  EXPECT_EQ(one.values<float>(one.model.store().parameters()),
            two.values<float>(two.model.store().parameters()));
}

TEST(BatchTest, RowsDoNotDependOnTheSplitOverRanks) {
  const Batch whole = random_batch({.rows = 6, .context = 5, .vocab = 100}, 1);
  const Batch part = random_batch({.first_row = 4, .rows = 2, .context = 5, .vocab = 100}, 1);
  EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin() + 20));
  EXPECT_TRUE(std::equal(part.targets.begin(), part.targets.end(), whole.targets.begin() + 20));
  for (std::size_t i = 0; i + 1 < 5; ++i) EXPECT_EQ(whole.targets[i], whole.tokens[i + 1]);
  EXPECT_NE(whole.tokens, random_batch({.rows = 6, .context = 5, .vocab = 100}, 2).tokens);
  for (const std::int32_t token : whole.tokens) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 100);
  }
}

}  // namespace
}  // namespace paceline
