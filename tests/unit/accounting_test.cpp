#include "model/accounting.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

StepShape step_shape(const std::string& size, Mode mode, const std::string& precision = "fp32") {
  StepShape s{.model = model_of(enum_named<ModelSize>(size)),
              .precision = precision_named(precision),
              .mode = mode};
  return s;
}

const MemoryLine* line_of(const std::vector<MemoryLine>& lines, const std::string& what) {
  for (const MemoryLine& line : lines) {
    if (line.what == what) return &line;
  }
  return nullptr;
}

TEST(AccountingTest, FlopsOfTheSmallModelByHand) {
  // R = 512: 2 R (12 (4 768^2 + 3 768 3072) + 768 10000) + 2 12 4 128^2 768
  const double attention = 2.0 * 12 * 4 * 16384 * 768;
  const double forward = 2.0 * 512 * (12.0 * (4 * 589824 + 3 * 2359296) + 7680000) + attention;
  const auto total = [](Mode mode) { return model_flops(step_shape("small", mode)).total(); };
  EXPECT_DOUBLE_EQ(total(Mode::forward), forward);
  EXPECT_DOUBLE_EQ(total(Mode::inference), forward);
  EXPECT_DOUBLE_EQ(total(Mode::forward_backward), 3 * forward);
  EXPECT_DOUBLE_EQ(total(Mode::train_step), 3 * forward);
  EXPECT_DOUBLE_EQ(model_flops(step_shape("small", Mode::train_step)).attention, 3 * attention);
}

TEST(AccountingTest, AModelsCausalAttentionCountsAsThatOfOneCall) {
  const StepShape s = step_shape("medium", Mode::forward);
  const AttentionShape heads{.batch = s.batch,
                             .context = s.model.context,
                             .heads = s.model.heads,
                             .head_dim = s.model.head_dim(),
                             .causal = true};
  const auto layers = static_cast<double>(s.model.layers);
  EXPECT_DOUBLE_EQ(model_flops(s).attention, layers * attention_flops(heads));
  for (const AttentionKind kind :
       {AttentionKind::naive, AttentionKind::fused, AttentionKind::flash}) {
    StepShape whole = step_shape("medium", Mode::train_step);
    whole.attention = kind;
    EXPECT_DOUBLE_EQ(step_flops(whole).attention, layers * executed_attention_flops(kind, heads));
  }
}

TEST(AccountingTest, RecomputationAddsTheBlocksForwardToTheStepOnly) {
  StepShape s = step_shape("small", Mode::train_step);
  const double plain = step_flops(s).total();
  s.recompute = 1;
  const double head = 2.0 * 512 * 768 * 10000;
  EXPECT_DOUBLE_EQ(step_flops(s).total(),
                   plain + step_flops(step_shape("small", Mode::forward)).total() - head);
  EXPECT_DOUBLE_EQ(model_flops(s).total(),
                   model_flops(step_shape("small", Mode::train_step)).total());
}

TEST(AccountingTest, FlashSkipsMaskedScoresAndRecomputesTheOthersInBackward) {
  StepShape s = step_shape("small", Mode::forward);
  const double square = 4.0 * 12 * 4 * 128 * 128 * 768;  // of 12 blocks
  const auto saved = [&](Mode mode) {
    s.mode = mode;
    s.attention = AttentionKind::naive;
    const double naive = step_flops(s).total();
    s.attention = AttentionKind::flash;
    const double needed = model_flops(s).total();
    s.attention = AttentionKind::naive;
    EXPECT_DOUBLE_EQ(model_flops(s).total(), needed);
    s.attention = AttentionKind::flash;
    return (naive - step_flops(s).total()) / square;
  };
  EXPECT_NEAR(saved(Mode::forward), 0.5, 1e-9);
  EXPECT_NEAR(saved(Mode::train_step), 3 - 3.5 / 2, 1e-9);
  s.recompute = 1;
  const double flash = step_flops(s).total();
  s.attention = AttentionKind::fused;
  EXPECT_NEAR((step_flops(s).total() - flash) / square, 4 - 4.5 / 2, 1e-9);
}

TEST(AccountingTest, FlashKeepsALogsumexpInPlaceOfProbabilities) {
  StepShape s = step_shape("small", Mode::forward, "bf16");
  s.model.context = 1024;
  const double naive = memory_form(s).activations;
  s.attention = AttentionKind::fused;
  EXPECT_DOUBLE_EQ(memory_form(s).activations, naive);
  s.attention = AttentionKind::flash;
  const double rows = 12.0 * 4 * 12 * 1024;  // of every block and head
  EXPECT_DOUBLE_EQ(naive - memory_form(s).activations, rows * (1024 * 2 - 4));
  const std::vector<MemoryLine> lines = memory_lines(s);
  EXPECT_EQ(line_of(lines, "its attention probabilities"), nullptr);
  EXPECT_EQ(line_of(lines, "its logsumexp")->formula, "4 x 12 x 1024 x 4");
}

TEST(AccountingTest, StateBytesPerParameter) {
  const auto n = static_cast<double>(model_of(enum_named<ModelSize>("2.7b")).parameters());
  const MemoryForm fp32 = memory_form(step_shape("2.7b", Mode::train_step));
  EXPECT_DOUBLE_EQ(fp32.parameters + fp32.gradients + fp32.optimizer, 16 * n);
  const MemoryForm bf16 = memory_form(step_shape("2.7b", Mode::train_step, "bf16"));
  EXPECT_DOUBLE_EQ(bf16.parameters + bf16.gradients + bf16.optimizer, 18 * n);
  // Exchanged as bfloat16: GEMMs write bfloat16; other gradients are also kept in float32.
  StepShape exchanged = step_shape("2.7b", Mode::train_step, "bf16");
  exchanged.precision.communication = Dtype::bf16;
  const double others = 2560 * (10000 + 2 * 32 + 1);  // the embedding and the norms
  EXPECT_DOUBLE_EQ(memory_form(exchanged).gradients, 2 * n + 4 * others);
  exchanged.precision.compute = Dtype::f32;
  EXPECT_DOUBLE_EQ(memory_form(exchanged).gradients, 6 * n);
  const MemoryForm inference = memory_form(step_shape("2.7b", Mode::inference));
  EXPECT_DOUBLE_EQ(inference.parameters, 4 * n);
  EXPECT_EQ(inference.gradients + inference.optimizer, 0);
}

// Two blocks on 12 rows: D 8, F 16, H 2, V 10, T 4. Bytes worked out by hand.
TEST(AccountingTest, StepBytesOfASmallModelByHand) {
  const auto bytes = [](Mode mode, const char* precision, int recompute = 0) {
    return step_bytes(
        {.model = {.vocab = 10, .context = 4, .d_model = 8, .d_ff = 16, .layers = 2, .heads = 2},
         .precision = precision_named(precision),
         .batch = 3,
         .mode = mode,
         .recompute = recompute});
  };
  // 2 10 8 + 2 (4 64 + 3 8 16 + 2 8) + 8
  constexpr double n = 1480;
  // A block: two residuals of 96 elements, two norms' statistics of 12, 12 (6 8 + 3 16) elements of
  // other activations, 3 2 16 probabilities. The head: a residual, a norm, 2 x 12 statistics, 120
  // logits.
  constexpr double block = 2 * 4 * (96 + 12) + 4 * 1152 + 4 * 96;
  constexpr double head = 4 * 96 + 4 * 96 + 2 * 4 * 12 + 4 * 120;
  constexpr double kept = 2 * block + head;
  EXPECT_EQ(bytes(Mode::forward, "fp32"), 4 * n + kept);
  // The peak: the feed-forward's residual, its input, w1 | w3 and their product.
  EXPECT_EQ(bytes(Mode::inference, "fp32"), 4 * n + 4 * (96 + 12 * (8 + 32) + 12 * 16));
  // Weights are read three times, gradients written, activations written and read.
  EXPECT_EQ(bytes(Mode::forward_backward, "fp32"), 12 * n + 4 * n + 2 * kept);
  // The update: weights read and written, gradients read, m and v read and written.
  EXPECT_EQ(bytes(Mode::train_step, "fp32"), 16 * n + 2 * kept + 4 * n + 4 * n + 4 * n + 16 * n);
  // Kept: the residual stream before each block, and the first block's output.
  constexpr double inputs = 2 * 4 * 96 + 4 * 96 + head;
  EXPECT_EQ(bytes(Mode::train_step, "fp32", 1), 16 * n + 2 * inputs + 28 * n);

  constexpr double half_block = 2 * 4 * (96 + 12) + 2 * 1152 + 2 * 96;
  constexpr double half_head = 4 * 96 + 2 * 96 + 2 * 4 * 12 + 2 * 120;
  constexpr double half = 2 * half_block + half_head;
  for (const char* precision : {"bf16", "fp16"}) {
    EXPECT_EQ(bytes(Mode::forward, precision), 2 * n + half);
    EXPECT_EQ(bytes(Mode::forward_backward, precision), 6 * n + 4 * n + 2 * half);
    // The low-precision copy is written as well.
    EXPECT_EQ(bytes(Mode::train_step, precision),
              10 * n + 2 * half + 4 * n + 6 * n + 4 * n + 16 * n);
  }
}

TEST(AccountingTest, MemoryLinesHaveTheirFormulasAndBytes) {
  const StepShape s = step_shape("2.7b", Mode::train_step, "bf16");
  const std::vector<MemoryLine> lines = memory_lines(s);
  EXPECT_EQ(line_of(lines, "parameters")->formula, "3406809600 x (4 + 2)");
  EXPECT_DOUBLE_EQ(line_of(lines, "parameters")->bytes, 6 * 3406809600.0);
  EXPECT_EQ(line_of(lines, "gradients")->formula, "3406809600 x 4");
  EXPECT_EQ(line_of(lines, "optimizer state")->formula, "2 x 3406809600 x 4");
  EXPECT_EQ(line_of(lines, "residual stream")->formula, "4 x 128 x 2560 x 4");
  EXPECT_DOUBLE_EQ(line_of(lines, "residual stream")->bytes, 4 * 128 * 2560 * 4.0);
  EXPECT_EQ(line_of(lines, "its logits")->formula, "4 x 128 x 10000 x 2");
  const double kept = 32 * line_of(lines, "a block")->bytes + line_of(lines, "the head")->bytes;
  EXPECT_DOUBLE_EQ(line_of(lines, "activations before backward")->bytes, kept);
  EXPECT_DOUBLE_EQ(line_of(lines, "peak")->bytes, memory_form(s).peak());
}

}  // namespace
}  // namespace paceline
