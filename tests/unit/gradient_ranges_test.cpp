#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "cpu/cpu_device.h"
#include "model/transformer.h"
#include "parallel/gradient_exchange.h"

namespace paceline {
namespace {

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
