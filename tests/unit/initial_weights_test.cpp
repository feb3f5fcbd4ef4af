// The distribution of random weights: normal, truncated at three standard deviations.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/cpu_device.h"
#include "model/transformer.h"
#include "model/weights_file.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

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
