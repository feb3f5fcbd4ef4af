// The dtypes of a model's components are read off a training step.

#include "experiments/precision/precision.h"

#include <gtest/gtest.h>

#include <map>

#include "cpu/cpu_device.h"
#include "harness/lone_world.h"

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

TEST_F(Components, Fp32IsFloat32Throughout) {
  for (const StudiedModel model : {StudiedModel::toy, StudiedModel::transformer}) {
    for (const auto& [component, dtype] : dtypes(model, precision_named("fp32"))) {
      EXPECT_EQ(dtype, "float32") << component;
    }
  }
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

// The status of a single case with the factors of `c`.
Status status_of(const PrecisionCase& c) {
  Factors<PrecisionCase> factors = precision_case_factors();
  for (Factor<PrecisionCase>& f : factors) f.defaults = {};
  const FactorOptions<PrecisionCase> options(std::move(factors), c);
  LoneWorld world;
  CpuDevice device(std::size_t{1} << 28U, 1);
  const auto experiment = precision_experiment(options, world, device, 0);
  EXPECT_EQ(experiment->cases().size(), 1U);
  Progress progress;
  return experiment->run(0, progress).status;
}

TEST(PrecisionExperiment, AMismatchIsTheCasesStatus) {
  PrecisionCase c;
  c.study = Study::dtypes;
  c.model = StudiedModel::transformer;
  c.precision = precision_named("fp16");
  EXPECT_EQ(status_of(c), Status::ok);
  c.precision.logits = Dtype::f32;
  EXPECT_EQ(status_of(c), Status::mismatch);
}

}  // namespace
}  // namespace paceline
