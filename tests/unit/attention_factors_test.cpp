// How a case says which products and which kernels flash attention has.

#include "experiments/attention/attention_factors.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

std::vector<Case> every_attention_and_precision() {
  Grid grid;
  grid.axis("precision", std::vector<std::string>{"fp32", "tf32", "bf16", "fp16"});
  grid.axis("attention", std::vector<std::string>{"naive", "flash"});
  std::vector<Case> cases = grid.cases();
  for (Case& c : cases) c.set("deterministic", false);
  return cases;
}

std::vector<std::string> values_of(const std::vector<Case>& cases, const char* factor) {
  std::vector<std::string> values;
  for (const Case& c : cases) {
    if (!c.has(factor)) continue;
    EXPECT_EQ(c.text("attention"), "flash");
    values.push_back(c.text("precision") + " " + c.text(factor));
  }
  return values;
}

TEST(AttentionFactors, OnlyFlashOfFp32HasAChoiceOfProducts) {
  const auto cases = with_fp32_attention(every_attention_and_precision(), {"exact", "near"});
  EXPECT_EQ(cases.size(), 9U);
  EXPECT_EQ(values_of(cases, "fp32_attention"),
            (std::vector<std::string>{"fp32 exact", "fp32 near", "tf32 tf32"}));
  EXPECT_EQ(ops_config_of(cases[1]).fp32_attention, Fp32Attention::exact);
  EXPECT_EQ(ops_config_of(cases[2]).fp32_attention, Fp32Attention::near);
}

TEST(AttentionFactors, OnlyFlashOfHalfTypesAndNearHasAChoiceOfKernels) {
  const auto cases = with_flash_kernels(
      with_fp32_attention(every_attention_and_precision(), {"exact", "near"}), {"newest", "sm80"});
  EXPECT_EQ(cases.size(), 12U);
  EXPECT_EQ(values_of(cases, "flash_kernels"),
            (std::vector<std::string>{"fp32 newest", "fp32 sm80", "bf16 newest", "bf16 sm80",
                                      "fp16 newest", "fp16 sm80"}));
  for (const Case& c : cases) {
    const bool sm80 = c.has("flash_kernels") && c.text("flash_kernels") == "sm80";
    EXPECT_EQ(ops_config_of(c).flash_kernels, sm80 ? FlashKernels::sm80 : FlashKernels::newest);
  }
}

}  // namespace
}  // namespace paceline
