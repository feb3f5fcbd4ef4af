// The dtypes of a model's components are logged from the operations that ran.

#include "experiments/precision/component_dtypes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cpu/cpu_device.h"

namespace paceline {
namespace {

class Components : public ::testing::Test {
 protected:
  [[nodiscard]] std::map<std::string, std::string> dtypes(StudiedModel model,
                                                          const Precision& precision) {
    const DtypesFactors c = {.precision = precision, .model = model};
    std::map<std::string, std::string> found;
    for (const ComponentDtype& one : component_dtypes(c, run_logged_step(device, c, 0))) {
      found[one.component] = one.dtype;
    }
    return found;
  }
  [[nodiscard]] CaseRecord record_of(StudiedModel model, const Precision& precision) {
    const DtypesFactors c = {.precision = precision, .model = model};
    CaseRecord record;
    add_dtypes(record, c, run_logged_step(device, c, 0));
    return record;
  }

  CpuDevice device{std::size_t{1} << 28U, 1};
};

using Dtypes = std::map<std::string, std::string>;

TEST_F(Components, TheToyModelUnderFp16) {
  EXPECT_EQ(dtypes(StudiedModel::toy, precision_named("fp16")),
            (Dtypes{{"parameters", "float32"},
                    {"fc1 output", "float16"},
                    {"ReLU output", "float16"},
                    {"LayerNorm statistics", "float32"},
                    {"LayerNorm output", "float32"},
                    {"logits", "float16"},
                    {"loss", "float32"},
                    {"gradients", "float32"}}));
}

TEST_F(Components, TheTransformerUnderBf16) {
  EXPECT_EQ(dtypes(StudiedModel::transformer, precision_named("bf16")),
            (Dtypes{{"parameters", "float32"},
                    {"embedding", "float32"},
                    {"residual stream", "float32"},
                    {"RMSNorm statistics", "float32"},
                    {"RMSNorm output", "bfloat16"},
                    {"q, k, v, output", "bfloat16"},
                    {"rotated q, k", "bfloat16"},
                    {"scores", "bfloat16"},
                    {"softmax output", "bfloat16"},
                    {"attention output", "bfloat16"},
                    {"SwiGLU output", "bfloat16"},
                    {"logits", "bfloat16"},
                    {"logsumexp", "float32"},
                    {"loss", "float32"},
                    {"gradients", "float32"},
                    {"AdamW's m", "float32"},
                    {"AdamW's v", "float32"}}));
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
  EXPECT_EQ(record.reason, "logits is float32 here, float16 under autocast; see components/");
}

TEST_F(Components, EveryOperandIsLogged) {
  const OpLog log = run_logged_step(device, {.model = StudiedModel::toy}, 0);
  const auto has = [&](const char* scope, const char* op, const char* operand) {
    return std::any_of(log.operands().begin(), log.operands().end(), [&](const LoggedOperand& o) {
      return o.scope == scope && o.op == op && o.operand == operand;
    });
  };
  EXPECT_TRUE(has("forward/fc1", "matmul", "a"));
  EXPECT_TRUE(has("forward/ln", "layer_norm", "mean"));
  EXPECT_TRUE(has("backward", "layer_norm_backward", "dw"));
  EXPECT_TRUE(has("backward", "relu_backward", "dx"));
  EXPECT_TRUE(has("optimizer", "adamw", "v"));
}

}  // namespace
}  // namespace paceline
