// --from: rates from measured steps, against steps whose rates are known.

#include "experiments/plan/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "experiments/plan/check_file.h"
#include "experiments/plan/step_time.h"

namespace paceline {
namespace {

constexpr WorkRates true_rates = {.projection_flops_per_s = 5e13,
                                  .feed_forward_flops_per_s = 5e13,
                                  .head_flops_per_s = 5e13,
                                  .attention_flops_per_s = 2e13,
                                  .parameter_bytes_per_s = 1e12,
                                  .activation_bytes_per_s = 2e12,
                                  .blocks_per_s = 2e4};

PlanCase step_of(ModelSize size, std::int64_t context, Strategy strategy = Strategy::none,
                 int ranks = 1) {
  PlanCase plan;
  TrainingCase& c = plan.step;
  const ModelConfig model = model_of(size);
  c.size = size;
  c.d_model = model.d_model;
  c.d_ff = model.d_ff;
  c.layers = model.layers;
  c.heads = model.heads;
  c.context = context;
  c.device = DeviceKind::cuda;
  c.strategy = strategy;
  c.ranks = ranks;
  plan.rates = true_rates;
  return plan;
}

// factor: on the time that follows from true_rates.
MeasuredStep measured(const PlanCase& plan, double factor = 1) {
  MeasuredStep s;
  s.name = name_of(plan.step.size);
  s.name +=
      " " + std::to_string(plan.step.context) + " " + std::string(name_of(plan.step.strategy));
  s.plan = plan;
  s.step_s = factor * step_time(plan).step_s();
  return s;
}

std::vector<MeasuredStep> plain_steps() {
  std::vector<MeasuredStep> steps;
  for (const ModelSize size :
       {ModelSize::small, ModelSize::medium, ModelSize::large, ModelSize::xl}) {
    for (const std::int64_t context : {128, 512, 1024}) {
      steps.push_back(measured(step_of(size, context)));
    }
  }
  return steps;
}

FittedLink link(std::string backend, std::int64_t ranks, std::string op = "all_reduce") {
  return {.backend = std::move(backend),
          .op = std::move(op),
          .dtype = "float32",
          .redop = "sum",
          .cadence = "barrier",
          .cache = "warm",
          .in_place = "yes",
          .registration = "symmetric",
          .ranks = ranks,
          .link = {.latency = 2e-5, .bandwidth = 3e11},
          .file = "links.h5"};
}

// Zeros if the calibration has no rates.
Calibration::StepRates rates_for(const Calibration& c, const PlanCase& plan) {
  return c.rates_for(plan).value_or(Calibration::StepRates{.rates = {}, .correction = 0});
}
FittedLink link_for(const Calibration& c, const PlanCase& plan) {
  return c.link_for("all_reduce", plan).value_or(FittedLink{});
}
FittedLink link_for(const Calibration& c, int ranks) {
  return link_for(c, step_of(ModelSize::tiny, 128, Strategy::bucketed, ranks));
}

TEST(FitRatesTest, FindsTheRatesOfExactTimes) {
  std::vector<TimedWork> rows;
  for (const MeasuredStep& s : plain_steps()) rows.push_back({s.plan.work(), s.step_s});
  const WorkRates fitted = fit_rates(rows);
  EXPECT_NEAR(fitted.projection_flops_per_s / true_rates.projection_flops_per_s, 1, 1e-6);
  EXPECT_EQ(fitted.feed_forward_flops_per_s, fitted.projection_flops_per_s);
  EXPECT_EQ(fitted.head_flops_per_s, fitted.projection_flops_per_s);
  EXPECT_NEAR(fitted.parameter_bytes_per_s / true_rates.parameter_bytes_per_s, 1, 1e-6);
  EXPECT_NEAR(fitted.activation_bytes_per_s / true_rates.activation_bytes_per_s, 1, 1e-6);
  EXPECT_NEAR(fitted.attention_flops_per_s / true_rates.attention_flops_per_s, 1, 1e-6);
  EXPECT_NEAR(fitted.blocks_per_s / true_rates.blocks_per_s, 1, 1e-6);
}

TEST(FitRatesTest, HeadsNeedContextsAndNumbersOfSequences) {
  WorkRates rates = true_rates;
  rates.heads_per_s = 1e6;
  const auto fitted = [&](const std::vector<std::int64_t>& contexts,
                          const std::vector<std::int64_t>& batches) {
    std::vector<TimedWork> rows;
    for (const ModelSize size : {ModelSize::small, ModelSize::medium, ModelSize::large}) {
      for (const std::int64_t context : contexts) {
        for (const std::int64_t batch : batches) {
          PlanCase plan = step_of(size, context);
          plan.step.batch_size = batch;
          rows.push_back({plan.work(), rates.seconds(plan.work())});
        }
      }
    }
    return fit_rates(rows).heads_per_s;
  };
  EXPECT_NEAR(fitted({128, 512, 1024}, {1, 4}) / rates.heads_per_s, 1, 1e-6);
  EXPECT_TRUE(std::isinf(fitted({128, 256}, {1, 4, 16})));
  EXPECT_TRUE(std::isinf(fitted({128, 512, 1024}, {4})));
}

TEST(FitRatesTest, ShapesOfProductsThatAreTimedAloneHaveTheirRates) {
  const WorkRates fitted = fit_rates({{{.projection_flops = 100}, 2},
                                      {{.feed_forward_flops = 300}, 3},
                                      {{.head_flops = 100}, 0.5}});
  EXPECT_NEAR(fitted.projection_flops_per_s, 50, 1e-9);
  EXPECT_NEAR(fitted.feed_forward_flops_per_s, 100, 1e-9);
  EXPECT_NEAR(fitted.head_flops_per_s, 200, 1e-9);
}

// Each single rate fits one row but for rounding, which must not choose among them.
TEST(FitRatesTest, OneRowHasTheRateOfProducts) {
  for (const double seconds : {2.0, 0.3, 0.07, 1.1, 0.013, 5.7}) {
    const Work work{.feed_forward_flops = 97, .parameter_bytes = 11, .activation_bytes = 3};
    const WorkRates fitted = fit_rates({{work, seconds}});
    EXPECT_DOUBLE_EQ(fitted.seconds(work), seconds);
    EXPECT_NEAR(fitted.feed_forward_flops_per_s, 97 / seconds, 1e-9 / seconds);
  }
}

TEST(FitRatesTest, NoRateIsBelowZero) {
  // Times that fall with the activations.
  const WorkRates fitted = fit_rates({{{.feed_forward_flops = 100, .activation_bytes = 10}, 1},
                                      {{.feed_forward_flops = 100, .activation_bytes = 20}, 0.9}});
  EXPECT_TRUE(std::isinf(fitted.activation_bytes_per_s));
  EXPECT_NEAR(fitted.feed_forward_flops_per_s, 100 / 0.95, 1);
}

TEST(FitRatesTest, FewRowsHaveFewRates) {
  const std::vector<TimedWork> rows = {{{.feed_forward_flops = 100, .blocks = 1}, 1},
                                       {{.feed_forward_flops = 200, .blocks = 1}, 1.5},
                                       {{.feed_forward_flops = 300, .blocks = 1}, 2}};
  EXPECT_TRUE(std::isinf(fit_rates(rows).blocks_per_s));
  std::vector<TimedWork> more = rows;
  more.push_back({{.feed_forward_flops = 400, .blocks = 1}, 2.5});
  EXPECT_NEAR(fit_rates(more).blocks_per_s, 2, 1e-9);
  EXPECT_NEAR(fit_rates(more).feed_forward_flops_per_s, 200, 1e-9);
}

TEST(FitRatesTest, WorkThatIsTimedAloneHasItsRate) {
  const WorkRates fitted =
      fit_rates({{{.feed_forward_flops = 100, .attention_flops = 10, .blocks = 1}, 3},
                 {{.feed_forward_flops = 100}, 2},
                 {{.attention_flops = 10}, 1}});
  EXPECT_NEAR(fitted.feed_forward_flops_per_s, 50, 1e-9);
  EXPECT_NEAR(fitted.attention_flops_per_s, 10, 1e-9);
  EXPECT_TRUE(std::isinf(fitted.blocks_per_s));
}

TEST(FitRatesTest, NoRateExceedsItsLimit) {
  WorkRates most = unlimited;
  most.feed_forward_flops_per_s = most.projection_flops_per_s = most.head_flops_per_s = 80;
  // The best fit without a limit explains the times by the blocks only.
  const WorkRates fitted = fit_rates({{{.feed_forward_flops = 10, .blocks = 10}, 1},
                                      {{.feed_forward_flops = 40, .blocks = 20}, 2},
                                      {{.feed_forward_flops = 20, .blocks = 30}, 3},
                                      {{.feed_forward_flops = 30, .blocks = 40}, 4}},
                                     most);
  EXPECT_NEAR(fitted.feed_forward_flops_per_s, 80, 1e-9);
  EXPECT_GT(fitted.blocks_per_s, 10);
  EXPECT_LT(fitted.blocks_per_s, 20);
}

TEST(CalibrationTest, OneProfiledStepSeparatesProductsFromTraffic) {
  MeasuredStep step = measured(step_of(ModelSize::small, 512));
  const Work work = step.plan.work();
  step.profiled = {{{.projection_flops = work.projection_flops},
                    work.projection_flops / true_rates.projection_flops_per_s},
                   {{.feed_forward_flops = work.feed_forward_flops},
                    work.feed_forward_flops / true_rates.feed_forward_flops_per_s},
                   {{.head_flops = work.head_flops}, work.head_flops / true_rates.head_flops_per_s},
                   {{.attention_flops = work.attention_flops},
                    work.attention_flops / true_rates.attention_flops_per_s},
                   {{.parameter_bytes = work.parameter_bytes},
                    work.parameter_bytes / true_rates.parameter_bytes_per_s},
                   {{.activation_bytes = work.activation_bytes},
                    work.activation_bytes / true_rates.activation_bytes_per_s}};
  const WorkRates fitted = rates_for(Calibration({step}, {}), step.plan).rates;
  EXPECT_NEAR(fitted.feed_forward_flops_per_s / true_rates.feed_forward_flops_per_s, 1, 0.05);
  EXPECT_NEAR(fitted.attention_flops_per_s / true_rates.attention_flops_per_s, 1, 0.05);
  EXPECT_NEAR(fitted.parameter_bytes_per_s / true_rates.parameter_bytes_per_s, 1, 0.05);
  EXPECT_NEAR(fitted.activation_bytes_per_s / true_rates.activation_bytes_per_s, 1, 0.05);
}

// One number of tokens cannot separate products from traffic.
TEST(CalibrationTest, RatesAreAtMostTheDataSheetS) {
  std::vector<MeasuredStep> steps;
  for (const ModelSize size : {ModelSize::small, ModelSize::medium, ModelSize::xl}) {
    steps.push_back(measured(step_of(size, 128), 0.01));
    steps.back().plan.hardware.name = "NVIDIA H200";
  }
  PlanCase plan = step_of(ModelSize::small, 128);
  plan.hardware.name = "h200";
  const WorkRates fitted = rates_for(Calibration(steps, {}), plan).rates;
  EXPECT_NEAR(fitted.feed_forward_flops_per_s, 66.9e12, 1);
  EXPECT_NEAR(fitted.activation_bytes_per_s, 4.8e12, 1);
}

TEST(CalibrationTest, PredictsACaseFromTheOthers) {
  const Calibration calibration(plain_steps(), {});
  for (const Checked& c : check_steps(plain_steps(), &calibration)) {
    EXPECT_NEAR(c.step_s / c.measured_step_s, 1, 1e-6) << c.name;
  }
}

TEST(CalibrationTest, ASingleCaseHasNoPrediction) {
  const std::vector<MeasuredStep> one = {measured(step_of(ModelSize::small, 128))};
  const Calibration calibration(one, {});
  EXPECT_TRUE(std::isnan(check_steps(one, &calibration).front().step_s));
  EXPECT_TRUE(std::isnan(check_steps(one, nullptr).front().step_s));
}

TEST(CalibrationTest, TheRatioOfASizeIsInterpolatedInTokensAndConstantOutside) {
  std::vector<MeasuredStep> steps = plain_steps();
  const auto ratio = [](const Calibration& c, std::int64_t context) {
    return rates_for(c, step_of(ModelSize::medium, context)).correction;
  };
  for (MeasuredStep& s : steps) {
    if (s.plan.step.size == ModelSize::medium && s.plan.step.context == 512) s.step_s *= 1.1;
  }
  const Calibration c(steps, {});
  EXPECT_NEAR(ratio(c, 256), (ratio(c, 128) + ratio(c, 512)) / 2, 1e-9);
  EXPECT_GT(ratio(c, 512), ratio(c, 128) * 1.05);
  EXPECT_EQ(ratio(c, 8192), ratio(c, 1024));
  EXPECT_EQ(rates_for(c, step_of(ModelSize::size_2_7b, 128)).correction, 1);
  PlanCase other = step_of(ModelSize::medium, 128);
  other.step.precision = precision_named("bf16");
  EXPECT_FALSE(c.rates_for(other));
}

TEST(CalibrationTest, TheLinkIsThatOfNcclWithTheNearestNumberOfRanks) {
  const Calibration c({}, {link("mpi", 8), link("nccl", 2), link("nccl", 4)});
  EXPECT_EQ(link_for(c, 8).backend, "nccl");
  EXPECT_EQ(link_for(c, 8).ranks, 4);
  EXPECT_EQ(link_for(c, 2).ranks, 2);
  EXPECT_FALSE(Calibration({}, {}).link_for("all_reduce", step_of(ModelSize::tiny, 128)));
}

TEST(CalibrationTest, AFitBecomesLatencyAndBytesThatARankSends) {
  const Calibration c({}, {link("nccl", 4)});
  const PlanCase plan = calibrated(step_of(ModelSize::xl, 128, Strategy::bucketed, 4), c);
  EXPECT_DOUBLE_EQ(plan.latency_s, 2e-5 / 2);
  EXPECT_DOUBLE_EQ(plan.data_bandwidth_bytes_per_s(), 3e11 * 2 * 3 / 4);
}

TEST(CalibrationTest, EachOperationHasItsOwnFit) {
  FittedLink gather = link("nccl", 4, "all_gather");
  gather.link = {.latency = 4e-5, .bandwidth = 3e11};  // sends half of all_reduce's bytes
  FittedLink of_two = link("nccl", 2, "broadcast");
  of_two.link.latency = 1;
  const Calibration c({}, {link("nccl", 4), gather, link("nccl", 4, "reduce_scatter"), of_two});
  const PlanCase planned = step_of(ModelSize::xl, 128, Strategy::fsdp, 4);
  const PlanCase plan = calibrated(planned, c);
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

TEST(CalibrationTest, TheLinkIsThatOfRegisteredMemoryInPlace) {
  FittedLink plain = link("nccl", 2);
  plain.registration = "none";
  FittedLink apart = link("nccl", 2);
  apart.in_place = "no";
  const Calibration c({}, {plain, apart, link("nccl", 2)});
  EXPECT_EQ(link_for(c, 2).registration, "symmetric");
  EXPECT_EQ(link_for(c, 2).in_place, "yes");
}

TEST(CalibrationTest, TheLinkIsThatOfTheExchangeWhateverTheOrderOfTheFits) {
  std::vector<FittedLink> links;
  for (const char* dtype : {"float32", "bfloat16", "float64"}) {
    for (const char* redop : {"prod", "sum"}) {
      for (const char* cache : {"cold", "warm"}) {
        FittedLink one = link("nccl", 2);
        one.dtype = dtype;
        one.redop = redop;
        one.cache = cache;
        links.push_back(one);
      }
    }
  }
  PlanCase plan = step_of(ModelSize::tiny, 128, Strategy::bucketed, 2);
  for (const bool reversed : {false, true}) {
    if (reversed) std::reverse(links.begin(), links.end());
    const Calibration c({}, links);
    for (const auto& [exchanged, dtype] :
         {std::pair(GradientDtype::fp32, "float32"), std::pair(GradientDtype::bf16, "bfloat16")}) {
      plan.step.comm_dtype = exchanged;
      EXPECT_EQ(link_for(c, plan).dtype, dtype);
      EXPECT_EQ(link_for(c, plan).redop, "sum");
      EXPECT_EQ(link_for(c, plan).cache, "warm");
    }
  }
}

TEST(CalibrationTest, ParametersAreGatheredInTheDtypeOfProducts) {
  FittedLink narrow = link("nccl", 2, "all_gather");
  narrow.dtype = "bfloat16";
  PlanCase plan = step_of(ModelSize::tiny, 128, Strategy::fsdp, 2);
  plan.step.precision = precision_named("bf16");
  const Calibration c({}, {link("nccl", 2, "all_gather"), narrow});
  EXPECT_EQ(c.link_for("all_gather", plan).value_or(FittedLink{}).dtype, "bfloat16");
}

TEST(CalibrationTest, ALinkWithOtherSettingsIsAnExtrapolation) {
  FittedLink other = link("nccl", 2);
  other.dtype = "bfloat16";
  other.redop = "prod";
  other.cache = "cold";
  const Calibration c(plain_steps(), {other});
  const auto texts = c.extrapolations(step_of(ModelSize::xl, 512, Strategy::bucketed, 2));
  ASSERT_EQ(texts.size(), 5U);
  EXPECT_EQ(texts[0], "collectives of float32, fitted with bfloat16");
  EXPECT_EQ(texts[1], "collectives that sum, fitted with prod");
  EXPECT_EQ(texts[2], "collectives in a warm cache, fitted in a cold one");
}

TEST(CalibrationTest, TimesThatDoNotGrowWithTheBytesAreNoLink) {
  FittedLink flat = link("mpi", 2);
  flat.link.bandwidth = std::numeric_limits<double>::infinity();
  try {
    (void)link_for(Calibration({}, {flat}), 2);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "--from: links.h5: the times of all_reduce on 2 ranks do not grow with the bytes; "
                 "measure more or larger sizes with collectives --fit");
  }
  EXPECT_EQ(link_for(Calibration({}, {flat, link("nccl", 2)}), 2).backend, "nccl");
}

TEST(CalibrationTest, ContentionIsTheCostOfHiddenCollectives) {
  const Calibration without(plain_steps(), {link("nccl", 2)});
  EXPECT_FALSE(without.contention_for(step_of(ModelSize::xl, 128)));
  PlanCase busy = calibrated(step_of(ModelSize::xl, 128, Strategy::bucketed, 2), without);
  busy.contention = 0.25;
  std::vector<MeasuredStep> steps = plain_steps();
  steps.push_back(measured(busy));
  const Calibration with(steps, {link("nccl", 2)});
  EXPECT_NEAR(with.contention_for(busy).value_or(0), 0.25, 1e-6);
  EXPECT_NEAR(calibrated(step_of(ModelSize::xl, 128), with).contention, 0.25, 1e-6);
  busy.step.device = DeviceKind::cpu;
  EXPECT_FALSE(with.contention_for(busy));
}

TEST(CalibrationTest, NamesExtrapolations) {
  const Calibration c(plain_steps(), {link("nccl", 2)});
  const std::vector<std::string> of_scaling = {
      "weak scaling on other ranks: collectives fitted on 2", "no contention was measured: 0"};
  EXPECT_EQ(c.extrapolations(step_of(ModelSize::xl, 512)), of_scaling);
  const auto texts = c.extrapolations(step_of(ModelSize::xl, 4096, Strategy::bucketed, 8));
  ASSERT_EQ(texts.size(), 4U);
  EXPECT_EQ(texts[0], "16384 tokens a rank, measured 512 to 4096");
  EXPECT_EQ(texts[1], "collectives of 8 ranks, fitted on 2");
  EXPECT_EQ(texts[2], of_scaling[0]);
  EXPECT_EQ(texts[3], of_scaling[1]);
}

TEST(CalibrationTest, OneRankUsesTheLinkOfItsWeakScaling) {
  const Calibration c({}, {link("nccl", 4)});
  const PlanCase one = calibrated(step_of(ModelSize::xl, 128, Strategy::bucketed, 1), c);
  const PlanCase four = calibrated(step_of(ModelSize::xl, 128, Strategy::bucketed, 4), c);
  EXPECT_DOUBLE_EQ(weak_efficiency(one, 4), weak_efficiency(four, 4));
  EXPECT_DOUBLE_EQ(one.latency_s, four.latency_s);
}

TEST(CalibrationTest, RatesAreThoseOfTheDevice) {
  std::vector<MeasuredStep> steps;
  const auto add = [&](const char* device, DeviceKind kind, double factor) {
    for (MeasuredStep s : plain_steps()) {
      s.plan.hardware.name = device;
      s.plan.step.device = kind;
      s.step_s *= factor;
      steps.push_back(s);
    }
  };
  PlanCase plan = step_of(ModelSize::xl, 512);
  plan.hardware.name = "h100";
  add("cpu", DeviceKind::cpu, 100);
  const Calibration of_cpu(steps, {});
  EXPECT_FALSE(of_cpu.rates_for(plan));
  EXPECT_EQ(of_cpu.other_devices(plan).at(0), "rates of cpu, not of h100: not used");
  add("NVIDIA A100-SXM4-80GB", DeviceKind::cuda, 3);
  const Calibration of_another(steps, {});
  EXPECT_NEAR(rates_for(of_another, plan).rates.feed_forward_flops_per_s * 3 /
                  true_rates.feed_forward_flops_per_s,
              1, 1e-6);
  EXPECT_EQ(of_another.other_devices(plan).at(0), "rates of NVIDIA A100-SXM4-80GB, not of h100");
  add("NVIDIA H100 80GB HBM3", DeviceKind::cuda, 2);
  const Calibration of_all(steps, {});
  EXPECT_NEAR(rates_for(of_all, plan).rates.feed_forward_flops_per_s * 2 /
                  true_rates.feed_forward_flops_per_s,
              1, 1e-6);
}

// The GPUs whose names contain those of others have rates of their own.
TEST(CalibrationTest, ADeviceIsKnownByItsWholeName) {
  for (const auto& [device, name, same] :
       {std::tuple("NVIDIA H200", "h200", true), std::tuple("NVIDIA GH200 480GB", "h200", false),
        std::tuple("NVIDIA H200 NVL", "h200", false), std::tuple("NVIDIA GB200", "b200", false),
        std::tuple("NVIDIA H200 MIG 1g.18gb", "h200", false),
        std::tuple("NVIDIA H100 PCIe", "h100", false),
        std::tuple("NVIDIA L40S", "NVIDIA L40S", true), std::tuple("NVIDIA B200", "b200", true)}) {
    std::vector<MeasuredStep> steps = plain_steps();
    for (MeasuredStep& step : steps) step.plan.hardware.name = device;
    PlanCase plan = step_of(ModelSize::xl, 512);
    plan.hardware.name = name;
    EXPECT_EQ(Calibration(steps, {}).other_devices(plan).empty(), same) << device;
  }
}

TEST(CalibrationTest, ASeriesThatDiffersInWarmUpHasNoPrediction) {
  std::vector<MeasuredStep> series = {measured(step_of(ModelSize::small, 128)),
                                      measured(step_of(ModelSize::small, 128))};
  series[1].name = "another id";
  series[1].plan.step.warmup = 0;
  const Calibration calibration(series, {});
  EXPECT_TRUE(std::isnan(check_steps(series, &calibration).front().step_s));
  series[1].plan.step.context = 256;
  const Calibration different(series, {});
  EXPECT_FALSE(std::isnan(check_steps(series, &different).front().step_s));
}

}  // namespace
}  // namespace paceline
