// The record of a case whose ranks have different devices, memory and data: figures by value.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>

#include "constants.h"
#include "cpu/cpu_device.h"
#include "experiments/attention/attention.h"
#include "experiments/training/training.h"
#include "one_rank_communicator.h"
#include "records.h"
#include "temp_folder.h"
#include "thread_world.h"

namespace paceline {
namespace {

constexpr double tera = 1e12;

// A CPU device with given ceilings, in units of 10^12; their interval is from 63/64 to 33/32.
class DeviceWithCeilings : public CpuDevice {
 public:
  explicit DeviceWithCeilings(double ceiling, std::size_t memory = plenty)
      : CpuDevice(memory, 1), ceiling_(ceiling) {}
  [[nodiscard]] std::vector<double> gemm_rates(const Precision& /*precision*/) override {
    return rates();
  }
  [[nodiscard]] std::vector<double> copy_rates() override { return rates(); }
  [[nodiscard]] std::optional<double> datasheet_peak(
      const Precision& /*precision*/) const override {
    return 8 * tera;
  }
  [[nodiscard]] DeviceInfo info() const override {
    DeviceInfo info = CpuDevice::info();
    info.name = "the CPU";
    return info;
  }
  // Allocates memory and holds it for the lifetime of the device.
  void hold(std::int64_t bytes, MemoryKind kind) {
    held_ = allocate({bytes / 4}, Dtype::f32, kind);
  }

 private:
  [[nodiscard]] std::vector<double> rates() const {
    std::vector<double> rates(8, ceiling_ * tera);
    for (const std::size_t slow : {0, 1}) rates[slow] *= 63.0 / 64;
    rates.back() *= 33.0 / 32;
    return rates;
  }

  double ceiling_;
  Array held_;
};

// Has flash kernels for heads of 16 elements only.
class DeviceOfWideHeads final : public DeviceWithCeilings {
 public:
  DeviceOfWideHeads() : DeviceWithCeilings(1) {}
  void check_attention(const OpsConfig& config, const AttentionShape& shape) const override {
    if (config.attention == AttentionKind::flash && shape.head_dim != 16)
      throw EnvironmentError("no kernels");
  }
};

using MakeDevice = std::function<std::unique_ptr<Device>(int rank)>;

// The records of all cases, by rank. make_experiment(world, device) returns a unique_ptr.
template <class MakeExperiment>
std::vector<std::vector<CaseRecord>> run(int ranks, const MakeExperiment& make_experiment,
                                         const MakeDevice& make_device) {
  std::vector<std::vector<CaseRecord>> records(static_cast<std::size_t>(ranks));
  std::mutex one_at_a_time;  // a device sets the number of BLAS threads of the whole process
  ThreadWorld::run(ranks, [&](World& world) {
    std::unique_ptr<Device> device;
    {
      const std::lock_guard lock(one_at_a_time);
      device = make_device(world.rank());
    }
    const auto experiment = make_experiment(world, *device);
    Progress progress;
    for (std::size_t i = 0; i < experiment->cases().size(); ++i) {
      records[static_cast<std::size_t>(world.rank())].push_back(experiment->run(i, progress));
    }
  });
  return records;
}

// D 16, F 32, L 2, H 2, V 31; one measured step.
TrainingOptions small_model(TrainingKind kind = TrainingKind::model) {
  TrainingOptions options(kind);
  for (const auto& [option, value] :
       options_of_preset("--size custom --d-model 16 --d-ff 32 --layers 2 --heads 2 --vocab 31 "
                         "--context 8 --batch-size 3 --warmup 0 --steps 1")) {
    options.factors.replace(option, value);
  }
  return options;
}

std::vector<std::vector<CaseRecord>> run_model(int ranks, const TrainingOptions& options,
                                               const MakeDevice& make_device) {
  const RunOptions run_options;
  return run(
      ranks,
      [&](World& world, Device& device) {
        return std::make_unique<TrainingExperiment>(options, run_options, world, device,
                                                    ProcessGroup{world});
      },
      make_device);
}

double figure(const CaseRecord& record, const std::string& name) {
  if (find_column(record.summary, name) == nullptr) throw std::runtime_error("no column " + name);
  return value_in<double>(record.summary, name);
}

const Table& table(const CaseRecord& record, const std::string& path) {
  const auto it = std::find_if(record.tables.begin(), record.tables.end(),
                               [&](const Table& t) { return t.path == path; });
  if (it == record.tables.end()) throw std::runtime_error("no table " + path);
  return *it;
}

// Seconds of the slowest rank in the only repetition.
double seconds_of(const PhaseSamples& phase) {
  double most = 0;
  for (const std::vector<double>& of_rank : phase.measured) most = std::max(most, of_rank.at(0));
  return most;
}

TEST(ModelExperimentTest, RatesCountTheTokensOfAllRanksAndTheFlopsOfTheModel) {
  TrainingOptions options = small_model();
  options.factors.replace("--recompute", "none,block");
  // 2 B T (L (4 D^2 + 3 D F) + D V) + 2 L B T^2 D; backward takes twice as many FLOPs, and
  // recomputation does not count.
  const double forward =
      2.0 * 3 * 8 * (2 * (4 * 256 + 3 * 16 * 32) + 16 * 31) + 2.0 * 2 * 3 * 64 * 16;
  const auto records = run_model(
      3, options, [](int rank) { return std::make_unique<DeviceWithCeilings>(rank == 1 ? 2 : 4); });
  ASSERT_EQ(records[0].size(), 2U);
  for (const CaseRecord& record : records[0]) {
    SCOPED_TRACE(to_text(record.factors.at("recompute")));
    const double seconds = seconds_of(record.samples.back());
    EXPECT_DOUBLE_EQ(figure(record, "tokens_per_s") * seconds, 3 * 3 * 8);
    const double rate = 3 * forward / seconds;
    EXPECT_DOUBLE_EQ(figure(record, "model_tflops_per_s"), rate / tera);
    EXPECT_DOUBLE_EQ(figure(record, "gemm_ceiling_tflops_per_s"), 2);  // of the slowest
    EXPECT_DOUBLE_EQ(figure(record, "gemm_ceiling_ci_low_tflops_per_s"), 2 * 63.0 / 64);
    EXPECT_DOUBLE_EQ(figure(record, "gemm_ceiling_ci_high_tflops_per_s"), 2 * 33.0 / 32);
    EXPECT_DOUBLE_EQ(figure(record, "mfu_measured"), rate / (2 * tera));
    EXPECT_DOUBLE_EQ(figure(record, "mfu_measured_low"), rate / (2 * tera) * 32 / 33);
    EXPECT_DOUBLE_EQ(figure(record, "mfu_measured_high"), rate / (2 * tera) * 64 / 63);
    EXPECT_DOUBLE_EQ(figure(record, "datasheet_tflops_per_s"), 8);
    EXPECT_DOUBLE_EQ(figure(record, "mfu_datasheet"), rate / (8 * tera));
    EXPECT_EQ(value_in<std::string>(record.summary, "datasheet_source"), "the CPU data sheet");
    EXPECT_EQ(kinds_text(record.warnings).find("above_ceiling"), std::string::npos);
  }
}

// Rank 1 holds an additional allocation of the kind optimizer_state throughout.
TEST(ModelExperimentTest, MemoryIsPerRankAndTheSummaryHasTheMaximum) {
  constexpr std::int64_t more = 1 << 20;
  const auto records = run_model(2, small_model(), [&](int rank) {
    auto device = std::make_unique<DeviceWithCeilings>(1);
    if (rank == 1) device->hold(more, MemoryKind::optimizer_state);
    return device;
  });
  const CaseRecord& record = records[0].at(0);
  for (const auto& [path, rows, columns] :
       {std::tuple{"memory", 8, std::vector<std::string>{"active", "peak", "optimizer_state"}},
        {"memory/phases", 6, {"peak", "optimizer_state"}}}) {
    const std::vector<Column>& found = table(record, path).columns;
    const auto& rank = values<std::int64_t>(found, "rank");
    ASSERT_EQ(rank.size(), 2U * rows) << path;
    for (int i = 0; i < rows; ++i) {
      EXPECT_EQ(rank.at(i), 0);
      EXPECT_EQ(rank.at(i + rows), 1);
      for (const std::string& name : columns) {
        const auto& bytes = values<std::int64_t>(found, name);
        EXPECT_EQ(bytes.at(i + rows) - bytes.at(i), more) << path << " " << name << " " << i;
      }
      const auto& activations = values<std::int64_t>(found, "activation");
      EXPECT_EQ(activations.at(i + rows), activations.at(i)) << path << " " << i;
    }
  }
  // The summary has the figures of rank 1, from its marks in the steady step.
  const std::vector<Column>& marks = table(record, "memory").columns;
  const auto steady = [&](const char* mark, const char* column) {
    for (std::size_t i = 8; i < 16; ++i) {
      if (values<std::string>(marks, "step")[i] != "steady") continue;
      if (values<std::string>(marks, "mark")[i] != mark) continue;
      return static_cast<double>(values<std::int64_t>(marks, column)[i]);
    }
    return 0.0;
  };
  EXPECT_EQ(figure(record, "memory_before_backward_bytes"), steady("before backward", "active"));
  EXPECT_EQ(figure(record, "optimizer_state_bytes"), steady("after step", "optimizer_state"));
  EXPECT_EQ(figure(record, "peak_bytes"), steady("after step", "peak"));
}

// The mean of the losses of two ranks with one row each is the loss of one rank with both rows.
TEST(ModelExperimentTest, RanksTakeTheirOwnRowsOfATokenFile) {
  const TempFolder folder;
  TrainingOptions options = small_model();
  options.factors.replace("--mode", "forward");
  const std::string tokens = (folder.path() / "tokens").string();
  options.factors.replace("--tokens", tokens);
  {
    std::ofstream out(tokens, std::ios::binary);
    for (int i = 0; i < 17; ++i) {
      const auto id = static_cast<std::uint16_t>(i * i % 31);
      out.write(reinterpret_cast<const char*>(&id), sizeof id);
    }
  }
  const auto losses = [&](int ranks) {
    options.factors.replace("--batch-size", std::to_string(2 / ranks));
    const auto records =
        run_model(ranks, options, [](int) { return std::make_unique<DeviceWithCeilings>(1); });
    return values<double>(table(records[0].at(0), "values").columns, "loss");
  };
  const std::vector<double> apart = losses(2);
  ASSERT_EQ(apart.size(), 2U);
  EXPECT_NE(apart[0], apart[1]);
  EXPECT_NEAR(losses(1).at(0), (apart[0] + apart[1]) / 2, 1e-6);
}

// Collective: what validate() throws, or nothing; then what the dry run says of each case.
std::vector<std::string> said_before(const Experiment& experiment) {
  std::vector<std::string> said;
  for (std::size_t i = 0; i < experiment.cases().size(); ++i) {
    experiment.validate(i);
    said.push_back(experiment.cannot_run(i));
  }
  return said;
}

// Of three cases only the last has kernels on a DeviceOfWideHeads: it alone is measured.
template <class MakeExperiment>
void expect_only_the_last_runs(const MakeExperiment& make_experiment) {
  const auto make = [&](World& world, Device& device) {
    auto experiment = make_experiment(world, device);
    EXPECT_EQ(said_before(*experiment),
              (std::vector<std::string>{"skipped: no kernels", "skipped: no kernels", ""}));
    return experiment;
  };
  const std::vector<CaseRecord> records =
      run(2, make, [](int) { return std::make_unique<DeviceOfWideHeads>(); })[0];
  ASSERT_EQ(records.size(), 3U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(records[i].status, Status::skipped);
    EXPECT_EQ(records[i].reason, "no kernels");
    EXPECT_TRUE(records[i].samples.empty());
  }
  EXPECT_EQ(records[2].status, Status::ok);
}

template <class MakeExperiment>
void expect_refusal_of_all(const MakeExperiment& make_experiment) {
  DeviceOfWideHeads device;
  ThreadWorld::run(1, [&](World& world) {
    EXPECT_THROW((void)said_before(*make_experiment(world, device)), EnvironmentError);
  });
}

// Counts the models that are made.
class CountingDevice final : public DeviceWithCeilings {
 public:
  CountingDevice() : DeviceWithCeilings(1) {}
  std::unique_ptr<Ops> make_ops(const OpsConfig& config) override {
    ++made;
    return DeviceWithCeilings::make_ops(config);
  }

  int made = 0;
};

// Each case has two models on the ranks for --verify, and the measured one. The first of a context
// has two more of a single process, which also serve the second.
TEST(DdpExperimentTest, CasesThatDifferInTheirExchangeShareTheSingleProcess) {
  TrainingOptions options = small_model(TrainingKind::ddp);
  options.factors.replace("--verify", "2");
  options.factors.replace("--sync", "naive,bucketed");
  options.factors.replace("--context", "8,16");
  const RunOptions run_options;
  CountingDevice device;
  OneRankCommunicator communicator(device);
  ThreadWorld::run(1, [&](World& world) {
    TrainingExperiment experiment(options, run_options, world, device,
                                  ProcessGroup{world, &communicator});
    Progress progress;
    std::vector<int> made;
    for (std::size_t i = 0; i < experiment.cases().size(); ++i) {
      device.made = 0;
      EXPECT_EQ(experiment.run(i, progress).status, Status::ok);
      made.push_back(device.made);
    }
    EXPECT_EQ(made, (std::vector{5, 3, 5, 3}));
  });
}

TEST(ModelExperimentTest, CasesWithoutKernelsAreSkippedUnlessAllAre) {
  TrainingOptions options = small_model();
  options.factors.replace("--attention", "flash,naive");
  options.factors.replace("--fp32-attention", "exact,bf16x3");
  const RunOptions run_options;
  const auto make = [&](World& world, Device& device) {
    return std::make_unique<TrainingExperiment>(options, run_options, world, device,
                                                ProcessGroup{world});
  };
  expect_only_the_last_runs(make);
  options.factors.replace("--attention", "flash");
  expect_refusal_of_all(make);
}

FactorOptions<AttentionCase> small_attention() {
  FactorOptions<AttentionCase> options(attention_case_factors());
  for (const auto& [option, value] :
       options_of_preset("--attention naive --context 16 --head-dim 8 --batch-size 2 --heads 3 "
                         "--cache warm --warmup 0 --steps 1")) {
    options.replace(option, value);
  }
  return options;
}

TEST(AttentionExperimentTest, CasesWithoutKernelsAreSkippedUnlessAllAre) {
  FactorOptions<AttentionCase> options = small_attention();
  options.replace("--attention", "flash");
  options.replace("--head-dim", "8,24,16");
  const auto make = [&](World& world, Device& device) {
    return attention_experiment(options, world, device, 0);
  };
  expect_only_the_last_runs(make);
  options.replace("--head-dim", "8,24");
  expect_refusal_of_all(make);
}

TEST(AttentionExperimentTest, TheFloorIsThatOfTheSlowestRank) {
  const FactorOptions<AttentionCase> options = small_attention();
  const auto records = run(
      3,
      [&](World& world, Device& device) { return attention_experiment(options, world, device, 0); },
      [](int rank) { return std::make_unique<DeviceWithCeilings>(rank == 1 ? 2 : 4); });
  const CaseRecord& record = records[0].at(0);
  EXPECT_EQ(record.status, Status::ok);
  // Forward: q, k, v and o in float32, and one statistic per row. Backward reads these and d_o, and
  // writes dq, dk and dv.
  const double in = 4.0 * 2 * 3 * 16 * (4 * 8 + 1);
  const double out = 4.0 * 2 * 3 * 16 * (8 * 8 + 1);
  EXPECT_DOUBLE_EQ(figure(record, "forward_bandwidth_floor_s"), in / (2 * tera));
  EXPECT_DOUBLE_EQ(figure(record, "backward_bandwidth_floor_s"), out / (2 * tera));
  EXPECT_DOUBLE_EQ(figure(record, "both_bandwidth_floor_s"), (in + out) / (2 * tera));
  const double flops = 4.0 * 2 * 3 * 16 * 16 * 8;
  EXPECT_DOUBLE_EQ(figure(record, "forward_tflops_per_s") * seconds_of(record.samples[0]),
                   flops / tera);
  EXPECT_DOUBLE_EQ(figure(record, "backward_tflops_per_s") * seconds_of(record.samples[1]),
                   2.5 * flops / tera);
  EXPECT_DOUBLE_EQ(figure(record, "datasheet_tflops_per_s"), 8);
  EXPECT_EQ(value_in<std::string>(record.summary, "datasheet_source"), "the CPU data sheet");
}

}  // namespace
}  // namespace paceline
