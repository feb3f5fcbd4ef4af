#include "harness/ceilings.h"

#include <gtest/gtest.h>

#include <cmath>

#include "constants.h"
#include "core/error.h"
#include "cpu/cpu_device.h"
#include "harness/launch.h"

namespace paceline {
namespace {

constexpr double tera = 1e12;

// A GPU by name: GEMMs reach 50 TFLOP/s in fp32, 300 in tf32 and 600 in bf16.
class Gpu final : public CpuDevice {
 public:
  explicit Gpu(std::string name) : CpuDevice(plenty, 1), name_(std::move(name)) {}
  [[nodiscard]] DeviceInfo info() const override {
    DeviceInfo info = CpuDevice::info();
    info.kind = DeviceKind::cuda;
    info.name = name_;
    return info;
  }
  [[nodiscard]] std::vector<double> gemm_rates(const Precision& precision) override {
    const double rate = precision.name == "fp32" ? 50 : precision.name == "tf32" ? 300 : 600;
    return std::vector<double>(8, rate * tera);
  }
  [[nodiscard]] std::optional<double> datasheet_peak(const Precision& precision) const override {
    if (name_ == "a MIG slice") return std::nullopt;
    return precision.name == "fp32" ? 66.9 * tera : 989.4 * tera;
  }

 private:
  std::string name_;
};

OpsConfig config_of(std::string_view precision, AttentionKind attention, Fp32Attention fp32) {
  return {.precision = precision_named(precision), .attention = attention, .fp32_attention = fp32};
}

const OpsConfig split = config_of("fp32", AttentionKind::flash, Fp32Attention::bf16x3);

TEST(CeilingsTest, AttentionHasTheCeilingOfItsArithmetic) {
  LoneWorld world;
  Gpu gpu("a GPU");
  Ceilings ceilings(world, gpu);
  const auto rate = [&](const OpsConfig& config) {
    return ceilings.products(config).rates().attention / tera;
  };
  using enum AttentionKind;
  EXPECT_DOUBLE_EQ(rate(split), 200);
  EXPECT_DOUBLE_EQ(rate(config_of("fp32", flash, Fp32Attention::tf32)), 300);
  EXPECT_DOUBLE_EQ(rate(config_of("fp32", flash, Fp32Attention::exact)), 50);
  EXPECT_DOUBLE_EQ(rate(config_of("fp32", naive, Fp32Attention::bf16x3)), 50);
  EXPECT_DOUBLE_EQ(rate(config_of("fp32", fused, Fp32Attention::bf16x3)), 50);
  EXPECT_DOUBLE_EQ(rate(config_of("tf32", flash, Fp32Attention::tf32)), 300);
  EXPECT_DOUBLE_EQ(rate(config_of("bf16", flash, Fp32Attention::bf16x3)), 600);
  EXPECT_EQ(ceilings.products(split).all().size(), 2U);
  EXPECT_DOUBLE_EQ(ceilings.products(split).rates().weights, 50 * tera);
  EXPECT_EQ(attention_arithmetic(split, DeviceKind::cpu).precision.name, "fp32");
}

TEST(CeilingsTest, TheCeilingOfAStepIsThatOfItsPartsOneAfterTheOther) {
  const ProductRates rates{.weights = 50, .attention = 200};
  EXPECT_DOUBLE_EQ(rates.of(500, 400), 500.0 / 4);  // 100 / 50 + 400 / 200
  EXPECT_DOUBLE_EQ(rates.of(500, 0), 50);
  EXPECT_DOUBLE_EQ(rates.of(500, 500), 200);
}

TEST(CeilingsTest, ThePeakIsTheDataSheetSOrTheOneGiven) {
  const Peak sheet = peak_of(Gpu("NVIDIA X"), split, 0);
  EXPECT_EQ(sheet.source, "NVIDIA X data sheet");
  EXPECT_DOUBLE_EQ(sheet.rates.weights, 66.9 * tera);
  EXPECT_DOUBLE_EQ(sheet.rates.attention, 989.4 * tera / 3);
  const Peak none = peak_of(Gpu("a MIG slice"), split, 0);
  EXPECT_EQ(none.source, "");
  EXPECT_TRUE(std::isnan(none.rates.of(2, 1)));
  const Peak given = peak_of(Gpu("a MIG slice"), split, 7);
  EXPECT_EQ(given.source, "--peak-tflops");
  EXPECT_DOUBLE_EQ(given.rates.of(2, 1), 7 * tera);
}

TEST(CeilingsTest, AnIntervalWiderThanATenthIsUnreliable) {
  Ceiling ceiling{.unit = "FLOP/s", .rate = {.median = 200, .ci_low = 190.5, .ci_high = 210}};
  EXPECT_TRUE(ceiling.is_reliable());
  ceiling.rate.ci_low = 189.5;
  EXPECT_FALSE(ceiling.is_reliable());
  ceiling.rate.ci_low = std::nan("");
  EXPECT_FALSE(ceiling.is_reliable());
}

TEST(CeilingsTest, AGivenPeakIsOfOneArithmetic) {
  const Precision& fp32 = precision_named("fp32");
  const OpsConfig naive = config_of("fp32", AttentionKind::naive, Fp32Attention::bf16x3);
  require_one_arithmetic(naive, fp32, DeviceKind::cuda);
  require_one_arithmetic(split, fp32, DeviceKind::cpu);
  EXPECT_THROW(require_one_arithmetic(split, fp32, DeviceKind::cuda), UsageError);
  EXPECT_THROW(require_one_arithmetic(naive, precision_named("bf16"), DeviceKind::cuda),
               UsageError);
}

TEST(CeilingsTest, OnlyAShareAboveOneIsAWarning) {
  CaseRecord record;
  for (const double share : {0.0, 0.5, 1.0, std::nan("")}) warn_above_ceiling(record, share);
  EXPECT_TRUE(record.warnings.empty());
  warn_above_ceiling(record, 1.036);
  EXPECT_EQ(kinds_text(record.warnings), "above_ceiling");
  EXPECT_EQ(warnings_text(record.warnings), "matrix products at 103.6% of their ceiling");
}

}  // namespace
}  // namespace paceline
