#include "core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "cpu/cpu_device.h"
#include "model/transformer.h"
#include "model/weights_file.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Random123's known answers (kat_vectors) for philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, UniformIsPhiloxInTheOpenInterval) {
  // Element 4 quad + k: word k of philox(counter = quad, stream; key = seed), in units of 2^-32.
  const auto u = Random(0, 0).uniform4(0);
  EXPECT_DOUBLE_EQ(u[0], (0x6627e8d5 + 0.5) * 0x1p-32);
  EXPECT_DOUBLE_EQ(u[3], (0x9b00dbd8 + 0.5) * 0x1p-32);
  const Random random(0x299f31d0a4093822, 0x0370734413198a2e);
  EXPECT_DOUBLE_EQ(random.uniform4(0x85a308d3243f6a88)[0], (0xd16cfe09 + 0.5) * 0x1p-32);
}

std::vector<float> normal(std::uint64_t seed, std::uint64_t stream, std::size_t n,
                          std::uint64_t offset = 0) {
  std::vector<float> values(n);
  Random(seed, stream).fill_normal(values, 1, offset);
  return values;
}

TEST(Random, AnElementDependsOnItsPlaceAlone) {
  const std::vector<float> all = normal(7, 3, 1001);
  for (const std::size_t offset : {1U, 2U, 3U, 4U, 5U, 998U}) {
    const std::vector<float> tail = normal(7, 3, 1001 - offset, offset);
    EXPECT_TRUE(
        std::equal(tail.begin(), tail.end(), all.begin() + static_cast<std::ptrdiff_t>(offset)))
        << offset;
  }
  EXPECT_EQ(normal(7, 3, 2, 500)[1], all[501]);
  EXPECT_TRUE(normal(7, 3, 0).empty());
}

TEST(Random, SeedsAndStreamsDiffer) {
  EXPECT_NE(normal(7, 3, 8), normal(8, 3, 8));
  EXPECT_NE(normal(7, 3, 8), normal(7, 4, 8));
  EXPECT_EQ(normal(7, 3, 8), normal(7, 3, 8));
}

struct Moments {
  double mean = 0;
  double variance = 0;
  double fourth = 0;
};
Moments moments(const std::vector<float>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const float v : values) m.mean += v / n;
  for (const float v : values) {
    const double d = v - m.mean;
    m.variance += d * d / n;
    m.fourth += d * d * d * d / n;
  }
  return m;
}

TEST(Random, NormalsMoments) {
  const Moments m = moments(normal(1, 0, 200'000));
  EXPECT_NEAR(m.mean, 0, 0.01);
  EXPECT_NEAR(m.variance, 1, 0.015);
  EXPECT_NEAR(m.fourth, 3, 0.1);
  std::vector<float> wide(200'000);
  Random(1, 0).fill_normal(wide, 5);
  EXPECT_NEAR(moments(wide).variance, 25, 0.4);
}

std::vector<float> truncated_normal(double std, double cut) {
  std::vector<float> values(200'000);
  const TruncatedNormal normal(std, cut);
  Random(1, 0).for_each(0, values.size(),
                        [&](std::uint64_t i, double u) { values[i] = normal(u); });
  return values;
}

TEST(Random, TruncatedNormalsMoments) {
  const std::vector<float> values = truncated_normal(1, 1);
  // Cut at +-a: variance 1 - 2 a phi(a) / (2 Phi(a) - 1).
  const double phi = std::exp(-0.5) / std::sqrt(2 * M_PI);
  const double variance = 1 - 2 * phi / std::erf(1 / std::sqrt(2.0));
  const Moments m = moments(values);
  EXPECT_NEAR(m.mean, 0, 0.005);
  EXPECT_NEAR(m.variance, variance, 0.005);
}

TEST(Random, IntegersCoverTheirRange) {
  std::vector<std::int32_t> values(10'000);
  Random(1, 0).fill_integers(values, 7);
  EXPECT_EQ(std::set<std::int32_t>(values.begin(), values.end()),
            (std::set<std::int32_t>{0, 1, 2, 3, 4, 5, 6}));
  for (int v = 0; v < 7; ++v) {
    EXPECT_NEAR(static_cast<double>(std::count(values.begin(), values.end(), v)), 10'000 / 7.0,
                150);
  }
}

// The y with erfc(y) = 2^-k, by Newton's method from a close start.
double tail(int k, double y) {
  for (int i = 0; i < 20; ++i) {
    y += (std::erfc(y) - std::ldexp(1, -k)) * std::sqrt(M_PI) / 2 * std::exp(y * y);
  }
  return y;
}

TEST(Erfinv, InvertsErf) {
  EXPECT_EQ(erfinv(0), 0);
  for (double y = 0.001; y < 3.7; y += 0.001) {
    EXPECT_NEAR(erfinv(std::erf(y)) / y, 1, 1e-6) << y;
    EXPECT_EQ(erfinv(-std::erf(y)), -erfinv(std::erf(y)));
  }
}

TEST(Erfinv, InTheTails) {
  // 1 - 2^-32 is the largest value that uniform4 leads to. The approximation is made for floats,
  // whose largest is 1 - 2^-24; beyond that it is accurate enough for one sample in 10^7.
  for (int k = 1; k <= 32; ++k) {
    const double y = erfinv(1 - std::ldexp(1, -k));
    EXPECT_NEAR(y / tail(k, y), 1, k <= 25 ? 1e-6 : 4e-4) << k;
  }
}

TEST(InitialWeights, AreNormalAndCutAtThreeDeviations) {
  CpuDevice device(plenty, 1);
  const Precision& fp32 = precision_named("fp32");
  const std::unique_ptr<Ops> ops = device.make_ops({.precision = fp32});
  const ModelConfig config{
      .vocab = 500, .context = 8, .d_model = 64, .d_ff = 192, .layers = 2, .heads = 4};
  ParameterStore store(device, fp32, Transformer::entries(config));
  initialise_weights(*ops, store, 1);

  const double within_two = std::erf(2 / std::sqrt(2.0));
  const double within_three = std::erf(3 / std::sqrt(2.0));
  const double beyond_two = 1 - within_two / within_three;  // 4.3%
  double matrices = 0;
  for (const ParameterEntry& entry : store.entries()) {
    for (const ParameterView& view : entry.views) {
      const Tensor x = store.parameters().slice(entry.offset + view.offset, view.shape);
      const std::vector<float> w = get_floats(device, x);
      if (view.shape.ndim() == 1) {
        EXPECT_EQ(std::count(w.begin(), w.end(), 1.0F), x.numel()) << view.name;
        continue;
      }
      ++matrices;
      const auto sum = static_cast<double>(view.shape[0] + view.shape[1]);
      const double deviation = view.name == "token_embeddings.weight" ? 1 : std::sqrt(2 / sum);
      const auto n = static_cast<double>(w.size());
      double most = 0;
      double beyond = 0;
      for (const float value : w) {
        const double size = std::abs(value) / deviation;
        most = std::max(most, size);
        if (size > 2) beyond += 1 / n;
      }
      EXPECT_GT(most, 2.5) << view.name;
      EXPECT_LE(most, 3 * (1 + 1e-6)) << view.name;
      const double error = std::sqrt(beyond_two * (1 - beyond_two) / n);
      EXPECT_NEAR(beyond, beyond_two, 4 * error) << view.name;
    }
  }
  EXPECT_EQ(matrices, 2 * 7 + 2);
}

}  // namespace
}  // namespace paceline
