// The plan's formulas, against figures worked out by hand; the devices of a file.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "experiments/plan/closed_forms.h"
#include "experiments/plan/plan_report.h"
#include "records.h"
#include "temp_folder.h"

namespace paceline {
namespace {

// The course's XXL on 16 x 4 TPUs.
PlanCase xxl() {
  PlanCase plan;
  plan.block_kind = BlockKind::two_matrix;
  TrainingCase& c = plan.step;
  c.size = ModelSize::custom;
  c.d_model = 16384;
  c.d_ff = 53248;
  c.layers = 126;
  c.heads = 128;
  c.context = 2048;
  c.batch_size = 1;
  c.precision = precision_named("bf16");
  c.comm_dtype = GradientDtype::bf16;
  c.strategy = Strategy::fsdp;
  c.ranks = 16;
  plan.tensor = 4;
  plan.axes = {.data = 2, .tensor = 1};
  plan.hardware = {.name = "tpu",
                   .memory_gb = 95,
                   .memory_gb_per_s = 1000,
                   .link_gb_per_s = 2 * 90,
                   .network_gb_per_s = 2 * 90,
                   .node_devices = 8960};
  plan.memory_bytes = 95 * giga;
  plan.rates = {.projection_flops_per_s = 4.6e14,
                .feed_forward_flops_per_s = 4.6e14,
                .head_flops_per_s = 4.6e14,
                .attention_flops_per_s = 4.6e14,
                .parameter_bytes_per_s = 1e12,
                .activation_bytes_per_s = 1e12};
  plan.latency_s = 1e-5;
  return plan;
}

PlanCase transformer(ModelSize size, Strategy strategy, int ranks) {
  PlanCase plan = xxl();
  plan.block_kind = BlockKind::transformer;
  plan.tensor = 1;
  plan.axes = {};
  TrainingCase& c = plan.step;
  const ModelConfig model = model_of(size);
  c.size = size;
  c.d_model = model.d_model;
  c.d_ff = model.d_ff;
  c.layers = model.layers;
  c.heads = model.heads;
  c.context = 128;
  c.batch_size = 4;
  c.precision = precision_named("fp32");
  c.comm_dtype = GradientDtype::fp32;
  c.strategy = strategy;
  c.ranks = ranks;
  c.device = DeviceKind::cuda;
  return plan;
}

TEST(PlanTest, DevicesThatShareTheStateAndAPartOfTheActivations) {
  const double state = 16 * xxl().parameters();
  const double activations = two_matrix_saved_bytes_per_token(xxl().step) * xxl().group_tokens();
  for (const double part : {0.0, 0.5, 1.0}) {
    const auto bytes = [&](double n) {
      return (state + part * activations) / n + (1 - part) * activations;
    };
    const double n = devices_needed(state, 95 * giga, activations, part);
    EXPECT_LE(bytes(n), 95 * giga);
    EXPECT_GT(bytes(n - 1), 95 * giga);
  }
  EXPECT_TRUE(std::isinf(devices_needed(state, 95 * giga, 190 * giga, 0.5)));
}

TEST(PlanTest, NoBatchIsComputeBoundWhereActivationsTakeLonger) {
  PlanCase plan = xxl();
  plan.step.d_ff = 8192;  // below Y C / (W M_Y)
  const ComputeBound b = compute_bound(plan, RingFactor::left_out);
  EXPECT_FALSE(b.tensor_is_hidden());
  EXPECT_TRUE(std::isinf(b.serial_tokens()));
  EXPECT_TRUE(std::isinf(b.overlapped_tokens()));
}

TEST(PlanTest, ReplicasExchangeGradientsBehindBackward) {
  PlanCase plan = transformer(ModelSize::xl, Strategy::bucketed, 8);
  const ComputeBound b = compute_bound(plan, RingFactor::left_out);
  EXPECT_DOUBLE_EQ(b.exchanged_bytes, 2 * 4.0 * 1'998'235'200);
  EXPECT_DOUBLE_EQ(b.flops_per_token, 2 * plan.forward_flops_per_token());
  EXPECT_DOUBLE_EQ(b.tensor_s_per_token, 0);
  plan.step.strategy = Strategy::zero1;
  EXPECT_DOUBLE_EQ(compute_bound(plan, RingFactor::left_out).exchanged_bytes, 4.0 * 1'998'235'200);
  EXPECT_DOUBLE_EQ(compute_bound(plan, RingFactor::counted).exchanged_bytes,
                   4.0 * 1'998'235'200 * 7 / 8);
}

using Bounds = std::vector<std::pair<std::string, double>>;

// The overlapped bound of each alternative.
void expect_alternatives(const PlanCase& plan, const Bounds& expected) {
  const std::vector<PlanSection> sections = plan_sections(plan);
  const auto found = std::ranges::find(sections, "what_if", &PlanSection::name);
  ASSERT_NE(found, sections.end());
  const std::optional<Table>& table = found->table;
  ASSERT_TRUE(table);
  const auto& what = values<std::string>(table->columns, "what");
  const auto& tokens = values<double>(table->columns, "overlapped");
  ASSERT_EQ(what.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(what.at(i), expected[i].first);
    EXPECT_DOUBLE_EQ(tokens.at(i), expected[i].second) << expected[i].first;
  }
}

TEST(PlanTest, AlternativesMoveTheBoundOfTheCourseSLayout) {
  const double bound = 16 * 4.6e14 / (1.8e11 * 2);  // X C / (W M_X)
  expect_alternatives(xxl(), {{"as planned", bound},
                              {"FP8 gathers", bound / 2},
                              {"gathers kept for backward", bound * 2 / 3},
                              {"gathers kept for 4 micro-batches", bound / 4},
                              {"tensor parallel 8, same devices", bound / 2},
                              {"twice the batch", bound},
                              {"twice the link bandwidth", bound / 2}});
}

// A node's network is the bottleneck: Y tensor-parallel ranks share it.
TEST(PlanTest, TwiceTheLinkBandwidthIsTwiceTheNetworkSToo) {
  PlanCase plan = xxl();
  plan.hardware.node_devices = 8;
  plan.hardware.network_gb_per_s = 4 * 50;
  plan.step.reshard = Reshard::no;
  const double bound = 16 * 4.6e14 / (5e10 * 2);
  expect_alternatives(plan, {{"as planned", bound},
                             {"FP8 gathers", bound / 2},
                             {"tensor parallel 8, same devices", bound},
                             {"twice the batch", bound},
                             {"twice the link bandwidth", bound / 2}});
}

TEST(PlanTest, ADeviceHoldsThePartsThatItsLayoutLeavesIt) {
  const MemoryForm m = device_memory(xxl());
  const double n = xxl().parameters();
  const double slot = 2.0 * 16384 * 53248;
  EXPECT_DOUBLE_EQ(m.parameters, 4 * n / 64);
  EXPECT_DOUBLE_EQ(m.optimizer, 8 * n / 64);
  EXPECT_DOUBLE_EQ(m.gathered, 2 * slot * 2 / 4);
  EXPECT_DOUBLE_EQ(m.gradients, (4 * n / 16 + 2 * slot * 2) / 4);
  EXPECT_DOUBLE_EQ(m.activations, 17'547'264.0 * 2048 / 4);
}

TEST(PlanTest, ATransformerOnOneDeviceIsItsClosedForm) {
  PlanCase plan = transformer(ModelSize::medium, Strategy::zero1, 2);
  const MemoryForm form = memory_form(plan.step.step_shape());
  EXPECT_DOUBLE_EQ(device_memory(plan).peak(), form.peak());
  plan.tensor = 4;
  EXPECT_DOUBLE_EQ(device_memory(plan).peak(), form.peak() / 4);
}

TEST(PlanTest, TheBestRecomputationIsTheBestOfAll) {
  for (PlanCase plan : {xxl(), transformer(ModelSize::xl, Strategy::fsdp, 4)}) {
    plan.tensor = 2;
    const BestRecompute best = best_recompute(plan);
    for (int k = 1; k <= plan.step.layers; ++k) {
      plan.step.recompute = {.blocks = k};
      const double peak = device_memory(plan).peak();
      if (k == best.blocks) {
        EXPECT_DOUBLE_EQ(best.peak_bytes, peak);
      }
      EXPECT_GE(peak, best.peak_bytes * (1 - 1e-12)) << k;
    }
  }
}

TEST(PlanTest, AStepWithoutOverlapIsTheSumOfItsParts) {
  const PlanCase plan = transformer(ModelSize::xl, Strategy::naive, 2);
  const StepTime t = step_time(plan);
  EXPECT_DOUBLE_EQ(t.products_s, step_flops(plan.step.step_shape()).total() / 4.6e14);
  EXPECT_DOUBLE_EQ(t.exchange_bytes, 4.0 * 1'998'235'200);
  EXPECT_DOUBLE_EQ(t.exchange_s, t.exchange_calls * 1e-5 + t.exchange_bytes / 1.8e11);
  EXPECT_DOUBLE_EQ(t.exposed_s, t.exchange_s);
  EXPECT_DOUBLE_EQ(t.step_s(), t.products_s + t.traffic_s + t.exchange_s);
}

TEST(PlanTest, BucketsHideBehindBackwardButForTheLast) {
  PlanCase plan = transformer(ModelSize::xl, Strategy::bucketed, 2);
  plan.step.context = 1024;
  StepTime t = step_time(plan);
  EXPECT_GT(t.exchange_calls, 1);
  EXPECT_DOUBLE_EQ(t.exposed_s, t.exchange_s / t.exchange_calls);
  plan.hardware.link_gb_per_s = t.exchange_bytes / t.compute_s() / giga;  // as long as the step
  t = step_time(plan);
  const double hidden = 2.0 / 3 * t.compute_s();
  EXPECT_DOUBLE_EQ(t.exposed_s, std::max(t.exchange_s / t.exchange_calls, t.exchange_s - hidden));
  EXPECT_LT(t.exposed_s, t.exchange_s);
}

TEST(PlanTest, ALastGroupOfFewerBlocksHasAnInputToo) {
  TrainingCase c = xxl().step;  // 126 layers
  c.recompute = {.blocks = 4};
  EXPECT_DOUBLE_EQ(two_matrix_saved_bytes_per_token(c), 2 * (32 * 16384. + 4 * (16384. + 53248)));
}

TEST(PlanTest, CollectivesOfThreeRanksTakeTwoLatencies) {
  const PlanCase plan = xxl();
  for (const auto& [ranks, depth] : {std::pair(1, 0), {2, 1}, {3, 2}, {4, 2}, {5, 3}}) {
    EXPECT_DOUBLE_EQ(collective_latency_s(plan, ranks), depth * plan.latency_s) << ranks;
  }
}

TEST(PlanTest, TensorParallelRanksShareTheirNodeSNetwork) {
  PlanCase plan = transformer(ModelSize::xl, Strategy::fsdp, 8);
  plan.hardware.link_gb_per_s = 450;
  plan.hardware.network_gb_per_s = 400;
  plan.hardware.node_devices = 8;
  EXPECT_DOUBLE_EQ(plan.data_bandwidth_bytes_per_s(), 450e9);  // one node
  plan.tensor = 4;
  EXPECT_DOUBLE_EQ(plan.data_bandwidth_bytes_per_s(), 100e9);
  plan.tensor = 32;  // 8 of the rings share a node's network
  EXPECT_DOUBLE_EQ(plan.data_bandwidth_bytes_per_s(), 50e9);
  plan.axes.data = 2;
  EXPECT_DOUBLE_EQ(plan.data_bandwidth_bytes_per_s(), 100e9);
}

TEST(PlanTest, PassesShareTheTensorParallelCollectivesOfAStep) {
  PlanCase plan = xxl();
  plan.latency_s = 0;
  const auto pass_s = [&](Strategy strategy) {
    plan.step.strategy = strategy;
    return compute_bound(plan, RingFactor::counted).tensor_s_per_token * plan.tokens();
  };
  const double forward = pass_s(Strategy::fsdp);
  const double backward = pass_s(Strategy::zero1);
  EXPECT_DOUBLE_EQ(backward, 1.5 * forward);
  EXPECT_DOUBLE_EQ(step_time(plan).tensor_s, forward + backward);
}

TEST(PlanTest, RanksAreCountedBeyond32Bits) {
  PlanCase plan = transformer(ModelSize::xl, Strategy::fsdp, 1 << 20);
  plan.tensor = 1 << 14;
  EXPECT_EQ(plan.ranks(), std::int64_t{1} << 34);
}

std::vector<DataSheet> devices_of(const std::string& text) {
  const TempFolder folder;
  const std::string file = (folder.path() / "F.toml").string();
  std::ofstream(file) << text;
  return known_hardware(file);
}

TEST(HardwareTest, AttentionHasThePeakOfItsArithmetic) {
  const auto peak = [](std::string_view precision, Fp32Attention fp32) {
    return attention_flops_per_s(*data_sheet_of("NVIDIA H200"),
                                 {.precision = precision_named(precision),
                                  .attention = AttentionKind::flash,
                                  .fp32_attention = fp32});
  };
  EXPECT_DOUBLE_EQ(peak("fp32", Fp32Attention::bf16x3), 989.4e12 / 3);
  EXPECT_DOUBLE_EQ(peak("fp32", Fp32Attention::tf32), 494.7e12);
  EXPECT_DOUBLE_EQ(peak("fp32", Fp32Attention::exact), 66.9e12);
  EXPECT_DOUBLE_EQ(peak("bf16", Fp32Attention::bf16x3), 989.4e12);
}

// A device file whose `key` has this value, and whose other figures are 1.
std::string device_with(std::string_view key, const std::string& value) {
  std::string text = "[x]\nsource = \"none\"\n";
  for (const std::string_view figure :
       {"memory_GB", "memory_GB_per_s", "link_GB_per_s", "network_GB_per_s", "node_devices"}) {
    text += fmt::format("{} = {}\n", figure, figure == key ? value : "1");
  }
  return text;
}

TEST(HardwareTest, AFigureIsANumberInRange) {
  for (const char* number : {"0", "-1", "inf", "nan", "1e300", "1e-300", "\"80\"", "true"}) {
    EXPECT_THROW((void)devices_of(device_with("memory_GB", number)), UsageError) << number;
  }
  EXPECT_EQ(devices_of(device_with("memory_GB", "80")).front().memory_gb, 80);
}

TEST(HardwareTest, DevicesOfANodeAreCounted) {
  for (const char* count : {"0", "0.5", "1e300", "-8", "\"8\""}) {
    EXPECT_THROW((void)devices_of(device_with("node_devices", count)), UsageError) << count;
  }
  EXPECT_EQ(devices_of(device_with("node_devices", "8")).front().node_devices, 8);
}

// ---- --rates: a plan with the rates and links of a file ----------------------------------------

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
