#include "model/parameter_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "cpu/cpu_device.h"
#include "model/model_config.h"
#include "model/transformer.h"
#include "parallel/gradient_exchange.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

std::vector<ParameterEntry> two_entries() {
  return {{.views = {{"a", {3, 5}}, {"b", {3, 5}}}, .shape = {6, 5}},
          {.views = {{"c", {7}}}, .shape = {7}, .uses = 2}};
}

class ParameterStoreTest : public ::testing::Test {
 protected:
  CpuDevice device{plenty, 1};
};

TEST_F(ParameterStoreTest, EntriesAreAlignedTo256BytesInEveryArray) {
  ParameterStore store(device, precision_named("bf16"), two_entries());
  store.allocate_gradients();
  for (const Tensor& flat : {store.parameters(), store.gradients(), store.copy()}) {
    EXPECT_EQ(flat.shape, Shape({store.size()}));
    for (const ParameterEntry& entry : store.entries()) {
      const auto address =
          reinterpret_cast<std::uintptr_t>(flat.slice(entry.offset, entry.shape).data);
      EXPECT_EQ(address % 256, 0U);
    }
  }
  EXPECT_EQ(store.copy().dtype, Dtype::bf16);
  EXPECT_EQ(store.gradients().dtype, Dtype::f32);
}

TEST_F(ParameterStoreTest, PaddingStartsAtZero) {
  ParameterStore store(device, precision_named("fp32"), two_entries());
  store.allocate_gradients();
  for (const Tensor& flat : {store.parameters(), store.gradients()}) {
    const auto* x = flat.as<float>();
    for (std::int64_t i = 30; i < store.entries()[1].offset; ++i) EXPECT_EQ(x[i], 0);
  }
}

TEST_F(ParameterStoreTest, ShardsOfEitherPrecisionAreEqualAndAligned) {
  std::vector<ParameterEntry> entries = two_entries();
  entries.back().full_precision = true;
  for (const int shards : {1, 2, 3}) {
    StoreLayout layout;
    layout.shards = shards;
    const ParameterStore store(device, precision_named("bf16"), entries, layout);
    const std::int64_t unit = shards * ParameterStore::alignment;
    EXPECT_EQ(store.entries()[1].offset, unit);
    EXPECT_EQ(store.size(), 2 * unit);
  }
}

// A gradient that a GEMM writes once is written in the exchanged dtype if that is the compute
// dtype.
TEST_F(ParameterStoreTest, GradientsAreWrittenAsTheyAreExchangedOrBeside) {
  std::vector<ParameterEntry> entries = two_entries();  // the second one is tied
  entries.push_back({.views = {{"d", {9}}}, .shape = {9}, .full_precision = true});
  struct Case {
    const char* precision;
    Dtype exchanged;
    std::vector<Dtype> written;  // per entry
  };
  for (const Case& c : {Case{"fp32", Dtype::f32, {Dtype::f32, Dtype::f32, Dtype::f32}},
                        Case{"bf16", Dtype::f32, {Dtype::f32, Dtype::f32, Dtype::f32}},
                        Case{"fp32", Dtype::bf16, {Dtype::f32, Dtype::f32, Dtype::f32}},
                        Case{"bf16", Dtype::bf16, {Dtype::bf16, Dtype::f32, Dtype::f32}}}) {
    SCOPED_TRACE(std::string(c.precision) + ", exchanged as " + std::string(name_of(c.exchanged)));
    Precision precision = precision_named(c.precision);
    precision.communication = c.exchanged;
    const std::unique_ptr<Ops> ops = device.make_ops({.precision = precision});
    ParameterStore store(device, precision, entries);
    store.allocate_gradients();
    EXPECT_EQ(store.gradients().dtype, c.exchanged);
    EXPECT_EQ(store.gradients().shape, Shape({store.size()}));
    std::size_t bytes = store.gradients().bytes();
    const auto rounded = [&](ParameterId id) {
      Array wide = device.allocate({1}, Dtype::f32, MemoryKind::workspace);
      ops->cast(wide, store.gradients().slice(store.entries()[id].offset, {1}));
      return *wide.tensor().as<float>();
    };
    for (ParameterId id = 0; id < 3; ++id) {
      const Tensor gradient = store.parameter(id).gradient;
      EXPECT_EQ(gradient.dtype, c.written[id]);
      EXPECT_EQ(gradient.shape, entries[id].shape);
      ops->fill(gradient, 1 + static_cast<double>(id));
      const bool beside = c.written[id] != c.exchanged;
      EXPECT_EQ(rounded(id), beside ? 0 : 1 + id);
      // Entries this small take one alignment unit each.
      if (beside) bytes += ParameterStore::alignment * sizeof(float);
    }
    EXPECT_EQ(device.ledger().bytes(MemoryKind::gradient), bytes);
    for (const ParameterId last : {1, 2}) {  // ranges that begin before the unrounded gradients
      store.round_gradients(*ops, {0, store.entries()[last].offset + 1});
      for (ParameterId id = 0; id <= last; ++id) EXPECT_EQ(rounded(id), 1 + id);
      const bool waits = last == 1 && c.written[2] != c.exchanged;
      EXPECT_EQ(rounded(2), waits ? 0 : 3);
    }
  }
}

TEST_F(ParameterStoreTest, ViewsMustFillTheirEntry) {
  EXPECT_THROW(ParameterStore(device, precision_named("fp32"),
                              {{.views = {{"a", {3, 5}}}, .shape = {6, 5}}}),
               InternalError);
}

TEST_F(ParameterStoreTest, ATiedWeightIsReadyAfterItsLastUse) {
  ParameterStore store(device, precision_named("fp32"), two_entries());
  for (int step = 0; step < 2; ++step) {
    store.begin_backward();
    EXPECT_FALSE(store.parameter(0).accumulate);
    EXPECT_TRUE(store.gradient_written(0));
    EXPECT_FALSE(store.parameter(1).accumulate);  // the first use writes
    EXPECT_FALSE(store.gradient_written(1));
    EXPECT_TRUE(store.parameter(1).accumulate);  // the second adds
    EXPECT_TRUE(store.gradient_written(1));
  }
}

// Gradients in the order in which backward writes them: each overwrites only gradients up to
// overwritten_by(), never later ones.
TEST_F(ParameterStoreTest, RecycledGradientsOverwriteOnlyWhatTheyName) {
  std::vector<ParameterEntry> entries;
  for (const std::int64_t n : {1000, 300, 77, 900, 1000, 129, 640, 1000, 5, 800, 640}) {
    entries.push_back({.views = {{fmt::format("w{}", n), {n}}}, .shape = {n}});
  }
  for (const std::int64_t n : {64, 64, 2000}) {
    entries.push_back(
        {.views = {{fmt::format("n{}", n), {n}}}, .shape = {n}, .full_precision = true});
  }
  ParameterStore store(device, precision_named("bf16"), entries);
  const std::size_t before = device.ledger().bytes();
  store.recycle_gradients(4);
  store.allocate_gradients();
  constexpr std::int64_t window = 4 * 1024;
  constexpr std::int64_t kept = 128 + 128 + 2048;
  EXPECT_EQ(device.ledger().bytes() - before, (window + kept) * sizeof(float));
  EXPECT_THROW((void)store.gradients(), InternalError);
  std::vector<ParameterId> written(static_cast<std::size_t>(window + kept), entries.size());
  const auto* first = store.parameter(0).gradient.as<float>();
  std::size_t recycled = 0;
  for (ParameterId id = 0; id < entries.size(); ++id) {
    const StoreRange range = store.entries()[id].range();
    const Tensor gradient = store.parameter(id).gradient;
    EXPECT_EQ(gradient.data, store.gradients(range).data);
    ASSERT_LE(gradient.as<float>() - first + range.length, window + kept);
    const auto replaced = store.overwritten_by(id);
    recycled += replaced ? 1 : 0;
    for (std::int64_t i = 0; i < range.length; ++i) {
      ParameterId& here = written.at(static_cast<std::size_t>(gradient.as<float>() - first + i));
      if (here < entries.size()) {
        ASSERT_TRUE(replaced.has_value()) << id;
        ASSERT_LE(store.entries()[here].offset, replaced->offset) << id;
      }
      here = id;
    }
  }
  EXPECT_GT(recycled, 3U);
  EXPECT_FALSE(store.overwritten_by(entries.size() - 1).has_value());
}

TEST_F(ParameterStoreTest, FewGradientsAreRecycledInFullLength) {
  ParameterStore store(
      device, precision_named("fp32"),
      {{.views = {{"a", {5}}}, .shape = {5}}, {.views = {{"b", {7}}}, .shape = {7}}});
  store.recycle_gradients(4);
  store.allocate_gradients();
  EXPECT_FALSE(store.overwritten_by(1).has_value());
  EXPECT_THROW((void)store.gradients({0, 256}), InternalError);
}

// Three groups; every rank keeps a third of each, concatenated.
TEST_F(ParameterStoreTest, AShardIsAllThatIsKept) {
  constexpr int shards = 3;
  std::vector<ParameterEntry> entries = {{.views = {{"a", {500}}}, .shape = {500}},
                                         {.views = {{"b", {70}}}, .shape = {70}},
                                         {.views = {{"c", {9}}}, .shape = {9}}};
  entries[2].full_precision = true;
  for (int rank = 0; rank < shards; ++rank) {
    StoreLayout layout;
    layout.shards = shards;
    layout.group_ends = {0};
    layout.kept_shard = rank;
    const ParameterStore store(device, precision_named("bf16"), entries, layout);
    EXPECT_EQ(store.size(), 768 + 384 + 384);
    EXPECT_EQ(store.parameters().shape, Shape({store.size() / shards}));
    EXPECT_TRUE(store.copy().empty());
    EXPECT_TRUE(store.parameter(0).value.empty());
    EXPECT_TRUE(store.flat_arrays().empty());
    const std::vector<StoreRange> kept = store.kept();
    ASSERT_EQ(kept.size(), 3U);
    std::int64_t place = 0;
    for (std::size_t g = 0; g < kept.size(); ++g) {
      EXPECT_EQ(kept[g].offset, store.groups()[g].offset + rank * kept[g].length);
      EXPECT_EQ(store.parameters(kept[g]).as<float>(), store.parameters().as<float>() + place);
      EXPECT_EQ(store.parameters({kept[g].offset + 1, 2}).data,
                store.parameters().slice(place + 1, {2}).data);
      EXPECT_EQ(store.parameters(kept[g]).shape, Shape({kept[g].length}));
      place += kept[g].length;
    }
    EXPECT_EQ(place, store.size() / shards);
    const StoreRange& others = store.shard_of(store.groups()[0], (rank + 1) % shards);
    EXPECT_THROW((void)store.parameters(others), InternalError);
    EXPECT_THROW((void)store.parameters({kept[0].offset, kept[0].length + 1}), InternalError);
  }
}

TEST(ModelConfigTest, ParameterCountsOfTheCourse) {
  const std::vector<std::pair<std::string, std::int64_t>> table = {
      {"small", 128'625'408}, {"medium", 423'183'360}, {"large", 969'411'840},
      {"xl", 1'998'235'200},  {"2.7b", 3'406'809'600}, {"10b", 12'832'823'808}};
  for (const auto& [name, count] : table)
    EXPECT_EQ(model_of(enum_named<ModelSize>(name)).parameters(), count) << name;
  EXPECT_EQ(model_of(enum_named<ModelSize>("2.7b")).head_dim(), 80);
  EXPECT_THROW((void)model_of(enum_named<ModelSize>("huge")), UsageError);
}

TEST(ModelConfigTest, TheStoreHoldsEveryParameterOnce) {
  const ModelConfig config = model_of(enum_named<ModelSize>("small"));
  std::int64_t count = 0;
  std::size_t views = 0;
  for (const ParameterEntry& entry : Transformer::entries(config)) {
    count += entry.shape.numel();
    views += entry.views.size();
  }
  EXPECT_EQ(count, config.parameters());
  EXPECT_EQ(views, static_cast<std::size_t>(9 * config.layers + 3));
}

// Entries of these lengths, laid out as in a store: each starts at a multiple of 128 elements.
std::vector<ParameterEntry> entries_of(const std::vector<std::int64_t>& lengths) {
  std::vector<ParameterEntry> entries;
  for (const std::int64_t n : lengths) {
    const std::string name = fmt::format("p{}", entries.size());
    entries.push_back({.views = {{name, {n}}}, .shape = {n}});
  }
  CpuDevice device(1 << 24, 1);
  return ParameterStore(device, precision_named("fp32"), entries).entries();
}

std::vector<GradientRange> buckets(const std::vector<std::int64_t>& lengths, double bytes) {
  return gradient_ranges(entries_of(lengths), Strategy::bucketed, bytes, sizeof(float));
}

std::vector<std::pair<ParameterId, ParameterId>> ends(const std::vector<GradientRange>& ranges) {
  std::vector<std::pair<ParameterId, ParameterId>> result;
  for (const GradientRange& r : ranges) result.emplace_back(r.first, r.last);
  return result;
}

using Ends = std::vector<std::pair<ParameterId, ParameterId>>;

TEST(GradientRanges, BucketsHoldAtMostTheCap) {
  EXPECT_EQ(ends(buckets({100, 100, 100, 100, 10}, 800)), (Ends{{0, 1}, {2, 3}, {4, 4}}));
  EXPECT_EQ(ends(buckets({100, 100, 100, 100, 10}, 799)),
            (Ends{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}));
  EXPECT_EQ(ends(buckets({100, 100, 100, 100, 10}, 1200)), (Ends{{0, 2}, {3, 3}, {4, 4}}));
}

TEST(GradientRanges, AParameterLargerThanTheCapHasItsOwnBucket) {
  EXPECT_EQ(ends(buckets({10, 500, 10, 10, 10}, 80)), (Ends{{0, 0}, {1, 1}, {2, 3}, {4, 4}}));
  EXPECT_EQ(ends(buckets({500, 500, 500}, 0)), (Ends{{0, 0}, {1, 1}, {2, 2}}));
}

TEST(GradientRanges, TheLastEntryWaitsForNoOther) {
  EXPECT_EQ(ends(buckets({10, 10, 10}, 1e12)), (Ends{{0, 1}, {2, 2}}));
  EXPECT_EQ(ends(buckets({10}, 1e12)), (Ends{{0, 0}}));
}

TEST(GradientRanges, CoverEveryGradientOnceInOrder) {
  const ModelConfig config = model_of(enum_named<ModelSize>("tiny"));
  CpuDevice device(1 << 28, 1);
  Transformer model(device, config, precision_named("fp32"));
  const auto& entries = model.store().entries();
  for (const auto strategy :
       {Strategy::naive, Strategy::flat, Strategy::overlap, Strategy::bucketed}) {
    std::int64_t end = 0;
    std::int64_t elements = 0;
    for (const GradientRange& r : gradient_ranges(entries, strategy, 30e3, sizeof(float))) {
      EXPECT_GE(r.offset, end);
      EXPECT_LT(r.offset - end, 128);  // only padding in between
      end = r.offset + r.length;
      elements += r.length;
      EXPECT_FALSE(r.name.empty());
    }
    EXPECT_GT(end, model.store().size() - 128);
    EXPECT_LE(elements, model.store().size());
  }
  // q, k and v count as separate parameters, although they share an entry.
  const auto each = gradient_ranges(entries, Strategy::naive, 0, sizeof(float));
  EXPECT_EQ(each.size(), static_cast<std::size_t>(3 + 9 * config.layers));
  EXPECT_EQ(each.front().name, "lm_head.weight");
  EXPECT_TRUE(gradient_ranges(entries, Strategy::none, 0, sizeof(float)).empty());
}

// Every rank's slice is aligned, the groups cover the store, and no group splits an entry.
TEST(GradientRanges, GroupsCoverTheStoreInEqualSlices) {
  const std::vector<ParameterEntry> entries =
      Transformer::entries(model_of(enum_named<ModelSize>("tiny")));
  for (const int shards : {1, 2, 3, 8}) {
    CpuDevice device(1 << 28, 1);
    for (const double bytes : {1.0, 2e4, 1e5, 1e9}) {
      StoreLayout layout;
      layout.shards = shards;
      layout.group_ends = group_ends(entries, Strategy::zero1, bytes, sizeof(float));
      const ParameterStore store(device, precision_named("bf16"), entries, layout);
      std::int64_t end = 0;
      for (const GradientRange& r : group_ranges(store, Strategy::zero1)) {
        EXPECT_EQ(r.offset, end);
        EXPECT_GT(r.length, 0);
        EXPECT_EQ(r.length % (shards * ParameterStore::alignment), 0);
        end = r.offset + r.length;
        for (ParameterId id = 0; id < store.entries().size(); ++id) {
          const ParameterEntry& e = store.entries()[id];
          const std::int64_t common = intersection(e.range(), r).length;
          EXPECT_EQ(common, r.first <= id && id <= r.last ? e.shape.numel() : 0);
          if (common == 0) continue;
          EXPECT_EQ(e.full_precision, store.entries()[r.last].full_precision);
        }
      }
      EXPECT_EQ(end, store.size());
    }
  }
}

TEST(GradientRanges, UnitsAreTheHeadTheBlocksTheNormsAndTheEmbedding) {
  const ModelConfig config = model_of(enum_named<ModelSize>("tiny"));
  const std::vector<ParameterEntry> entries = Transformer::entries(config);
  std::vector<std::string> units;
  for (const ParameterId last : group_ends(entries, Strategy::fsdp, 0, sizeof(float)))
    units.push_back(entries[last].unit);
  EXPECT_EQ(units, (std::vector<std::string>{"head", "block 1", "block 0", "norms", "embedding"}));
}

}  // namespace
}  // namespace paceline
