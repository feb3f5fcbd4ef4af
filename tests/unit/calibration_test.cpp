// --rates: a plan with the rates and links of a file.

#include <gtest/gtest.h>

#include <cmath>

#include "experiments/plan/closed_forms.h"

namespace paceline {
namespace {

constexpr WorkRates measured_rates = {.projection_flops_per_s = 5e13,
                                      .feed_forward_flops_per_s = 5e13,
                                      .head_flops_per_s = 5e13,
                                      .attention_flops_per_s = 2e13,
                                      .parameter_bytes_per_s = 1e12,
                                      .activation_bytes_per_s = 2e12};

PlanCase step_of(ModelSize size, std::int64_t context, Strategy strategy = Strategy::none,
                 int ranks = 1) {
  PlanCase plan;
  TrainingCase& c = plan.step;
  const ModelConfig model = model_of(size);
  c.d_model = model.d_model;
  c.d_ff = model.d_ff;
  c.layers = model.layers;
  c.heads = model.heads;
  c.context = context;
  c.device = DeviceKind::cuda;
  c.strategy = strategy;
  c.ranks = ranks;
  plan.hardware = {.name = "h200", .node_devices = 1};
  plan.rates = measured_rates;
  return plan;
}

PlanCase on_two_ranks() { return step_of(ModelSize::tiny, 128, Strategy::bucketed, 2); }

FittedLink link(std::string backend, std::int64_t ranks, std::string op = "all_reduce") {
  return {.device = "NVIDIA H200",
          .backend = std::move(backend),
          .op = std::move(op),
          .dtype = "float32",
          .redop = "sum",
          .cache = "warm",
          .ranks = ranks,
          .link = {.latency = 2e-5, .bandwidth = 3e11}};
}

StepRates rates_of(const std::string& device, const PlanCase& plan, double factor = 1) {
  WorkRates rates = measured_rates;
  rates.feed_forward_flops_per_s /= factor;
  return {.device = device,
          .group = group_of(plan),
          .rates = rates,
          .sizes = {{model_text(plan), {{512, 1.0}, {2048, 1.2}}}}};
}

// The bytes/s of all_reduce on the plan's ranks tell which link was chosen.
double link_bandwidth(const PlanCase& plan, std::vector<FittedLink> links) {
  return calibrated(plan, {.links = std::move(links)}).hardware.link_gb_per_s * giga;
}

TEST(CalibrationTest, TheRatioOfASizeIsInterpolatedInTokensAndConstantOutside) {
  const PlanCase plan = step_of(ModelSize::medium, 128);
  const RatesFile file{.steps = {rates_of("NVIDIA H200", plan)}};
  const auto ratio = [&](ModelSize size, std::int64_t context) {
    return calibrated(step_of(size, context), file).correction;
  };
  EXPECT_NEAR(ratio(ModelSize::medium, 256), 1.1, 1e-9);
  EXPECT_EQ(ratio(ModelSize::medium, 64), 1.0);
  EXPECT_EQ(ratio(ModelSize::medium, 8192), 1.2);
  EXPECT_EQ(ratio(ModelSize::large, 512), 1);
  PlanCase other = plan;
  other.rates.feed_forward_flops_per_s = 7;
  other.step.precision = precision_named("bf16");
  EXPECT_EQ(calibrated(other, file).rates.feed_forward_flops_per_s, 7);
}

TEST(CalibrationTest, TheLinkIsThatOfNcclWithTheNearestNumberOfRanks) {
  FittedLink two = link("nccl", 2);
  two.link.bandwidth = 1e11;
  const std::vector<FittedLink> links = {link("mpi", 8), two, link("nccl", 4)};
  EXPECT_DOUBLE_EQ(link_bandwidth(step_of(ModelSize::tiny, 128, Strategy::bucketed, 8), links),
                   3e11 * 1.5);
  EXPECT_DOUBLE_EQ(link_bandwidth(on_two_ranks(), links), 1e11);
  EXPECT_EQ(link_bandwidth(on_two_ranks(), {}), on_two_ranks().hardware.link_gb_per_s);
}

TEST(CalibrationTest, TheLinkIsThatOfTheExchangedDtypeOrTheFirst) {
  FittedLink narrow = link("nccl", 2);
  narrow.dtype = "bfloat16";
  narrow.link.bandwidth = 1e11;
  FittedLink wide = narrow;
  wide.dtype = "float64";
  PlanCase plan = on_two_ranks();
  EXPECT_DOUBLE_EQ(link_bandwidth(plan, {narrow, link("nccl", 2)}), 3e11);
  EXPECT_DOUBLE_EQ(link_bandwidth(plan, {narrow, wide}), 1e11);
  plan.step.comm_dtype = GradientDtype::bf16;
  EXPECT_DOUBLE_EQ(link_bandwidth(plan, {link("nccl", 2), narrow}), 1e11);
}

TEST(CalibrationTest, ParametersAreGatheredInTheDtypeOfProducts) {
  FittedLink narrow = link("nccl", 2, "all_gather");
  narrow.dtype = "bfloat16";
  narrow.link.latency = 7e-5;
  PlanCase plan = step_of(ModelSize::tiny, 128, Strategy::fsdp, 2);
  plan.step.precision = precision_named("bf16");
  const RatesFile file{.links = {link("nccl", 2), link("nccl", 2, "all_gather"), narrow}};
  EXPECT_EQ(calibrated(plan, file).measured("all_gather").latency_s, 7e-5);
}

TEST(CalibrationTest, AFitBecomesLatencyAndBytesThatARankSends) {
  const PlanCase plan =
      calibrated(step_of(ModelSize::xl, 128, Strategy::bucketed, 3), {.links = {link("nccl", 3)}});
  EXPECT_DOUBLE_EQ(plan.latency_s, 2e-5 / 2);
  EXPECT_DOUBLE_EQ(plan.data_bandwidth_bytes_per_s(), 3e11 * 2 * 2 / 3);
}

TEST(CalibrationTest, EachOperationHasItsOwnFit) {
  FittedLink gather = link("nccl", 4, "all_gather");
  gather.link = {.latency = 4e-5, .bandwidth = 3e11};  // sends half of all_reduce's bytes
  FittedLink of_two = link("nccl", 2, "broadcast");
  of_two.link.latency = 1;
  const RatesFile file{
      .links = {link("nccl", 4), gather, link("nccl", 4, "reduce_scatter"), of_two}};
  const PlanCase plan = calibrated(step_of(ModelSize::xl, 128, Strategy::fsdp, 4), file);
  EXPECT_DOUBLE_EQ(plan.measured("all_gather").latency_s, 4e-5 / 2);
  EXPECT_DOUBLE_EQ(plan.measured("all_gather").bandwidth_ratio, 0.5);
  EXPECT_DOUBLE_EQ(plan.measured("broadcast").latency_s, 2e-5 / 2);
  EXPECT_DOUBLE_EQ(plan.measured("broadcast").bandwidth_ratio, 1);
  double seconds = 0;
  const std::vector<ExchangeForm> none;
  const auto exchanges = plan.strategy_shape().exchanges(0).value_or(none);
  for (const ExchangeForm& one : exchanges) {
    const double latency = one.op == "all_gather" ? 4e-5 : 2e-5;
    seconds += one.calls * latency + one.sent_bytes / (3e11 * 3 / 4);
  }
  EXPECT_DOUBLE_EQ(step_time(plan).exchange_s, seconds);
}

TEST(CalibrationTest, OneRankUsesTheLinkOfItsWeakScaling) {
  const RatesFile file{.links = {link("nccl", 4)}};
  PlanCase one = calibrated(step_of(ModelSize::xl, 128, Strategy::bucketed, 1), file);
  const PlanCase four = calibrated(step_of(ModelSize::xl, 128, Strategy::bucketed, 4), file);
  one.step.ranks = 4;
  EXPECT_DOUBLE_EQ(step_time(one).step_s(), step_time(four).step_s());
  EXPECT_DOUBLE_EQ(one.latency_s, four.latency_s);
}

TEST(CalibrationTest, ContentionIsThatOfTheKindOfDevice) {
  const RatesFile file{.contention = {{"cuda", 0.25}}};
  PlanCase plan = on_two_ranks();
  EXPECT_EQ(calibrated(plan, file).contention, 0.25);
  plan.step.device = DeviceKind::cpu;
  EXPECT_EQ(calibrated(plan, file).contention, 0);
}

TEST(CalibrationTest, RatesAreThoseOfTheDevice) {
  PlanCase plan = step_of(ModelSize::xl, 512);
  plan.rates.feed_forward_flops_per_s = 7;
  PlanCase on_cpu = plan;
  on_cpu.step.device = DeviceKind::cpu;
  const auto rate = [&](const RatesFile& file) {
    return calibrated(plan, file).rates.feed_forward_flops_per_s;
  };
  RatesFile file{.steps = {rates_of("cpu", on_cpu)}};
  EXPECT_EQ(rate(file), 7);
  EXPECT_EQ(extrapolations(plan, file).back(), "rates of cpu, not of h200: not used");
  file.steps.push_back(rates_of("NVIDIA A100-SXM4-80GB", plan, 3));
  EXPECT_DOUBLE_EQ(rate(file), 5e13 / 3);
  EXPECT_EQ(extrapolations(plan, file).back(), "rates of cpu, not of h200: not used");
  EXPECT_EQ(extrapolations(plan, file).rbegin()[1], "rates of NVIDIA A100-SXM4-80GB, not of h200");
  file.steps.push_back(rates_of("NVIDIA H200", plan, 2));
  EXPECT_DOUBLE_EQ(rate(file), 5e13 / 2);
}

TEST(CalibrationTest, NamesExtrapolations) {
  const PlanCase plan = step_of(ModelSize::xl, 512);
  const RatesFile file{.steps = {rates_of("NVIDIA H200", plan)}, .links = {link("nccl", 2)}};
  const std::vector<std::string> of_scaling = {
      "weak scaling on other ranks: collectives fitted on 2", "no contention was measured: 0"};
  EXPECT_EQ(extrapolations(plan, file), of_scaling);
  const auto texts = extrapolations(step_of(ModelSize::xl, 4096, Strategy::bucketed, 8), file);
  ASSERT_EQ(texts.size(), 4U);
  EXPECT_EQ(texts[0], "16384 tokens a rank, measured 512 to 2048");
  EXPECT_EQ(texts[1], "collectives of 8 ranks, fitted on 2");
  EXPECT_EQ(texts[2], of_scaling[0]);
  EXPECT_EQ(texts[3], of_scaling[1]);
}

TEST(CalibrationTest, ALinkWithOtherSettingsIsAnExtrapolation) {
  FittedLink other = link("nccl", 2);
  other.dtype = "bfloat16";
  other.redop = "prod";
  other.cache = "cold";
  const auto texts = extrapolations(on_two_ranks(), {.links = {other}});
  ASSERT_EQ(texts.size(), 6U);
  EXPECT_EQ(texts[1], "collectives of float32, fitted with bfloat16");
  EXPECT_EQ(texts[2], "collectives that sum, fitted with prod");
  EXPECT_EQ(texts[3], "collectives in a warm cache, fitted in a cold one");
}

}  // namespace
}  // namespace paceline
