// The dtypes of a model's components are read off a training step. Sums with every addition
// rounded: against known values and theoretical bounds.

#include "experiments/precision/precision.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "core/random.h"
#include "cpu/cpu_device.h"

namespace paceline {
namespace {

using Dtypes = std::map<std::string, std::string>;

class Components : public ::testing::Test {
 protected:
  [[nodiscard]] CaseRecord record_of(StudiedModel model, const Precision& precision) {
    PrecisionCase c;
    c.model = model;
    c.precision = precision;
    CaseRecord record;
    add_dtypes(record, device, c, 0);
    return record;
  }
  // By the columns' names.
  [[nodiscard]] Dtypes dtypes(StudiedModel model, const Precision& precision) {
    constexpr std::string_view prefix = "dtype_";
    Dtypes found;
    for (const Cell& cell : record_of(model, precision).summary) {
      if (cell.name.starts_with(prefix)) {
        found[cell.name.substr(prefix.size())] = std::get<std::string>(cell.value);
      }
    }
    return found;
  }

  CpuDevice device{std::size_t{1} << 28U, 1};
};

TEST_F(Components, TheToyModelUnderFp16) {
  EXPECT_EQ(dtypes(StudiedModel::toy, precision_named("fp16")),
            (Dtypes{{"parameters", "float32"},
                    {"fc1_output", "float16"},
                    {"ReLU_output", "float16"},
                    {"LayerNorm_statistics", "float32"},
                    {"LayerNorm_output", "float32"},
                    {"logits", "float16"},
                    {"loss", "float32"},
                    {"gradients", "float32"}}));
}

TEST_F(Components, TheTransformerUnderBf16) {
  EXPECT_EQ(dtypes(StudiedModel::transformer, precision_named("bf16")),
            (Dtypes{{"parameters", "float32"},
                    {"embedding", "float32"},
                    {"residual_stream", "float32"},
                    {"RMSNorm_statistics", "float32"},
                    {"RMSNorm_output", "bfloat16"},
                    {"q_k_v_output", "bfloat16"},
                    {"rotated_q_k", "bfloat16"},
                    {"scores", "bfloat16"},
                    {"softmax_output", "bfloat16"},
                    {"attention_output", "bfloat16"},
                    {"SwiGLU_output", "bfloat16"},
                    {"logits", "bfloat16"},
                    {"logsumexp", "float32"},
                    {"loss", "float32"},
                    {"gradients", "float32"},
                    {"AdamW_s_m", "float32"},
                    {"AdamW_s_v", "float32"}}));
}

// A precision whose dtypes do not match its name is a mismatch.
TEST_F(Components, ADifferenceFromAutocastIsAMismatch) {
  for (const StudiedModel model : {StudiedModel::toy, StudiedModel::transformer}) {
    EXPECT_EQ(record_of(model, precision_named("fp16")).status, Status::ok);
    Precision other = precision_named("fp16");
    other.compute = Dtype::bf16;
    EXPECT_EQ(record_of(model, other).status, Status::mismatch);
    other = precision_named("fp16");
    other.residual = other.statistics = Dtype::f64;
    EXPECT_EQ(record_of(model, other).status, Status::mismatch);
  }
  Precision wide = precision_named("fp16");
  wide.logits = Dtype::f32;
  const CaseRecord record = record_of(StudiedModel::transformer, wide);
  EXPECT_EQ(record.status, Status::mismatch);
  EXPECT_EQ(record.reason, "logits is float32 here, float16 under autocast");
}

constexpr std::array<Summation, 4> orders = {Summation::sequential, Summation::pairwise,
                                             Summation::blocked, Summation::compensated};
constexpr std::array<Dtype, 3> dtypes = {Dtype::f32, Dtype::bf16, Dtype::f16};

// The sum of n equal addends.
float total(float addend, std::size_t n, Dtype addends, Dtype sum, Summation how) {
  return sum_of(how, std::vector<float>(n, nearest(addends, addend)), sum);
}

TEST(Summation, OrdersAddUpInTheirOrder) {
  // In bfloat16 256 + 1 = 256, so that the result shows the order of additions.
  std::vector<float> numbers(64, 1.0);
  numbers[0] = 256;
  EXPECT_EQ(sum_of(Summation::sequential, numbers, Dtype::bf16), 256);
  // A single 1 added to 256 is lost; sums of 2, 4, 8, 16 and 32 ones are not.
  EXPECT_EQ(sum_of(Summation::pairwise, numbers, Dtype::bf16), 256 + 2 + 4 + 8 + 16 + 32);
  EXPECT_EQ(sum_of(Summation::blocked, numbers, Dtype::bf16), 256 + 32);
  // 319 is between two numbers.
  EXPECT_EQ(sum_of(Summation::compensated, numbers, Dtype::bf16), 256 + 64);
}

TEST(Summation, AnyCountIsAddedUpOnce) {
  for (const Summation how : orders) {
    for (const std::size_t n : {1, 2, 3, 31, 32, 33, 63, 64, 65, 1000}) {
      EXPECT_EQ(total(1, n, Dtype::f32, Dtype::f32, how), n) << name_of(how);
    }
  }
}

TEST(Summation, ErrorsOfRandomNumbersStayWithinTheBounds) {
  for (const Dtype dtype : dtypes) {
    for (const std::size_t n : {2, 33, 1000, 4099}) {
      std::vector<float> x(n);
      Random(n, 0).fill_normal(x);
      double exact = 0;
      double absolute = 0;
      for (float& v : x) {
        v = nearest(dtype, v);
        exact += v;
        absolute += std::abs(v);
      }
      const auto error = [&](Summation how) {
        return std::abs(sum_of(how, x, dtype) - exact) / absolute;
      };
      const auto count = static_cast<double>(n);
      const double u = unit_roundoff(dtype);
      EXPECT_LE(error(Summation::sequential), (count - 1) * u) << name_of(dtype) << n;
      EXPECT_LE(error(Summation::pairwise), std::ceil(std::log2(count)) * u) << name_of(dtype) << n;
      EXPECT_LE(error(Summation::blocked), (32 + count / 32) * u) << name_of(dtype) << n;
      EXPECT_LE(error(Summation::compensated), 2 * u + count * u * u) << name_of(dtype) << n;
    }
  }
}

TEST(Summation, ASumBeyondTheLargestNumberIsInfinite) {
  constexpr auto infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(total(60000, 2, Dtype::f16, Dtype::f16, Summation::sequential), infinite);
  EXPECT_EQ(total(60000, 2, Dtype::f16, Dtype::f32, Summation::sequential), 120000);
}

}  // namespace
}  // namespace paceline
