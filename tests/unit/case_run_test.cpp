// The order in which measure_case() calls a CaseRun, and how ranks agree between the calls.

#include "harness/case_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "constants.h"
#include "core/error.h"
#include "core/profiler.h"
#include "cpu/cpu_device.h"
#include "harness/experiment.h"
#include "test_terminal.h"
#include "tests/unit/records.h"
#include "tests/unit/temp_folder.h"
#include "thread_world.h"

namespace paceline {
namespace {

// Records its calls, with ", frozen" appended if the device can no longer allocate during the call.
class RecordingRun : public CaseRun {
 public:
  explicit RecordingRun(Device& device) : device_(device) {}

  void set_up(Progress& /*progress*/) override { note("set_up"); }
  void agree() override { note("agree"); }
  void connect() override { note("connect"); }
  void start() override { note("start"); }
  [[nodiscard]] std::vector<std::string> phases() const override { return {"time"}; }
  [[nodiscard]] PhaseSeconds repetition() override {
    note("repetition");
    return {static_cast<double>(calls.size())};
  }
  [[nodiscard]] Repetitions cold_repetitions() const override {
    Repetitions cold;
    for (int i = 0; i < cold_count; ++i) cold.take([i] { return PhaseSeconds{0.5 + i}; });
    return cold;
  }
  void add_to(CaseRecord& record) override {
    note("add_to");
    record.status = status;
  }

  std::vector<std::string> calls;
  Status status = Status::ok;
  int cold_count = 1;

 protected:
  void note(const std::string& call) { calls.push_back(call + (is_frozen() ? ", frozen" : "")); }
  Device& device_;

 private:
  [[nodiscard]] bool is_frozen() const {
    try {
      (void)device_.allocate({1}, Dtype::f32, MemoryKind::workspace);
    } catch (const InternalError&) {
      return true;
    }
    return false;
  }
};

constexpr SamplerConfig once = {.warmup = 1, .steps = 2};

CaseRecord measure(World& world, Device& device, CaseRun& run, const SamplerConfig& sampling = once,
                   double memory_bytes = 2e6) {
  Progress progress;
  return measure_case(world, device, run, sampling, {.memory_bytes = memory_bytes}, progress);
}

double time_of_run = 0;

// A step takes 1 s.
class TimedRun final : public RecordingRun {
 public:
  using RecordingRun::RecordingRun;
  [[nodiscard]] PhaseSeconds repetition() override {
    time_of_run += 1;
    return {1};
  }
};

TEST(CaseRun, ShowsWarmUpAndStepsWithTheTimeLeft) {
  const TestTerminal terminal;
  ThreadWorld::run(1, [&](World& world) {
    CpuDevice device(plenty, 1);
    TimedRun run(device);
    Progress progress(terminal.out(), {1}, [] { return time_of_run; });
    progress.begin_case(0, "small");
    (void)measure_case(world, device, run, {.warmup = 2, .steps = 3}, {.memory_bytes = 2e6},
                       progress);
  });
  const std::string shown = terminal.read();
  for (const char* line : {"warm-up 1/2 (1 s; 4 s left)", "warm-up 2/2 (2 s; 3 s left)",
                           "step 1/3 (3 s; 2 s left)", "step 2/3 (4 s; 1 s left)"}) {
    EXPECT_NE(shown.find(fmt::format("\r[1/1] small: {}\x1b[K", line)), std::string::npos) << shown;
  }
}

// note() allocates to find out whether the device is frozen. Trimming returns these blocks, so that
// a frozen device has none to reuse.
class TrimmedRun final : public RecordingRun {
 public:
  using RecordingRun::RecordingRun;
  void set_up(Progress& progress) override {
    RecordingRun::set_up(progress);
    device_.trim();
  }
  void connect() override {
    RecordingRun::connect();
    device_.trim();
  }
};

TEST(MeasureCase, CallsItsRunInOrderAndFreezesBetweenConnectAndStart) {
  ThreadWorld::run(1, [](World& world) {
    CpuDevice device(plenty, 1);
    TrimmedRun run(device);
    const CaseRecord record = measure(world, device, run);
    EXPECT_EQ(run.calls, (std::vector<std::string>{"set_up", "agree", "connect", "start, frozen",
                                                   "repetition, frozen", "repetition, frozen",
                                                   "repetition, frozen", "add_to, frozen"}));
    EXPECT_EQ(record.status, Status::ok);
    ASSERT_EQ(record.samples.size(), 1U);
    EXPECT_EQ(record.samples[0].warmup, (std::vector<std::vector<double>>{{0.5, 5}}));
    EXPECT_EQ(record.samples[0].measured, (std::vector<std::vector<double>>{{6, 7}}));
  });
}

TEST(MeasureCase, ProfilesLastAndThenTimesTheSameNumberOfRepetitions) {
  ThreadWorld::run(2, [](World& world) {
    CpuDevice device(plenty, 1);
    TrimmedRun run(device);
    const CaseRecord record = measure(world, device, run, {.warmup = 1, .steps = 2, .profile = 2});
    ASSERT_EQ(run.calls.size(), 14U);
    EXPECT_EQ(run.calls[7], "add_to, frozen");
    for (std::size_t i = 8; i < 14; ++i) EXPECT_EQ(run.calls[i], "repetition, frozen");
    if (world.rank() != 0) return;
    EXPECT_EQ(record.samples[0].measured[0].size(), 2U);
    // Each repetition returns the number of calls so far; the first of each three is warm-up.
    EXPECT_EQ(value_in<double>(record.summary, "profiled_headline_s"), (10 + 11) / 2.0);
    EXPECT_EQ(value_in<double>(record.summary, "headline_after_profile_s"), (13 + 14) / 2.0);
    EXPECT_EQ(value_in<std::string>(record.summary, "profile_source"), "events");
    EXPECT_EQ(value_in<std::int64_t>(record.summary, "profile_lost"), 0);
  });
}

// A device whose profiler sees into graphs that are captured while the profiler runs.
class GraphProfilingDevice final : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  std::unique_ptr<Profiler> start_profiler() override {
    class Seeing final : public Profiler {
      [[nodiscard]] bool sees_into_graphs() const override { return true; }
      [[nodiscard]] Trace finish() override { return {.source = "cupti"}; }
    };
    return std::make_unique<Seeing>();
  }
};

TEST(MeasureCase, RecapturesGraphsForAProfilerAndAfterIt) {
  ThreadWorld::run(1, [](World& world) {
    class CapturedRun final : public RecordingRun {
     public:
      using RecordingRun::RecordingRun;
      void capture_again() override { calls.emplace_back("capture_again"); }
    };
    GraphProfilingDevice device(plenty, 1);
    CapturedRun run(device);
    (void)measure(world, device, run, {.warmup = 1, .steps = 2, .profile = 1});
    std::vector<std::string> after;
    for (std::size_t i = run.calls.size() - 6; i < run.calls.size(); ++i) {
      after.push_back(run.calls[i].substr(0, run.calls[i].find(',')));
    }
    EXPECT_EQ(after, (std::vector<std::string>{"capture_again", "repetition", "repetition",
                                               "capture_again", "repetition", "repetition"}));
  });
}

TEST(MeasureCase, RecordsWhenEveryRankRanEachRepetition) {
  ThreadWorld::run(2, [](World& world) {
    CpuDevice device(plenty, 1);
    RecordingRun run(device);
    const CaseRecord record = measure(world, device, run);
    if (world.rank() != 0) return;
    ASSERT_EQ(record.tables.size(), 1U);
    EXPECT_EQ(record.tables[0].path, "clocks");
    const auto column = [&](const char* name) {
      const Column* found = find_column(record.tables[0].columns, name);
      EXPECT_NE(found, nullptr) << name;
      return found->data;
    };
    using Integers = std::vector<std::int64_t>;
    // The cold repetition, the warm-up repetition, and the two measured ones.
    EXPECT_EQ(std::get<Integers>(column("rank")), (Integers{0, 0, 0, 0, 1, 1, 1, 1}));
    EXPECT_EQ(std::get<Integers>(column("warmup")), (Integers{1, 1, 0, 0, 1, 1, 0, 0}));
    EXPECT_EQ(std::get<Integers>(column("repetition")), (Integers{0, 1, 0, 1, 0, 1, 0, 1}));
    const auto began = std::get<std::vector<double>>(column("began"));
    const double now = static_cast<double>(std::time(nullptr));
    EXPECT_NEAR(began[0], now, 60);
    EXPECT_LE(began[0], began[1]);
    EXPECT_LE(began[1], began[2]);
    EXPECT_NE(find_column(record.summary, "involuntary_switches"), nullptr);
    EXPECT_EQ(record.stop_reason, "steps");
    EXPECT_EQ(record.warmup_reason, "warmup");
  });
}

// One of two ranks runs out of memory in connect(), where NCCL allocates its buffers.
TEST(MeasureCase, ARankThatLacksMemoryToConnectMakesTheCaseOomEverywhere) {
  class Lacking final : public RecordingRun {
   public:
    Lacking(Device& device, bool lacks) : RecordingRun(device), lacks_(lacks) {}
    void connect() override {
      RecordingRun::connect();
      if (lacks_) throw OutOfMemory(100, device_.ledger(), plenty, "connecting");
    }

   private:
    bool lacks_;
  };
  for (const int lacks : {0, 1}) {
    ThreadWorld::run(2, [&](World& world) {
      CpuDevice device(plenty, 1);
      Lacking run(device, world.rank() == lacks);
      const CaseRecord record = measure(world, device, run);
      EXPECT_EQ(run.calls, (std::vector<std::string>{"set_up", "agree", "connect"}));
      EXPECT_EQ(record.status, Status::oom);
      EXPECT_TRUE(record.samples.empty());
      if (world.rank() != 0) return;
      const std::string named = "rank " + std::to_string(lacks) + ": 'connecting' asked for 100 B";
      EXPECT_NE(record.reason.find(named), std::string::npos) << record.reason;
    });
  }
}

// Such a case could take minutes to set up before it runs out of memory.
TEST(MeasureCase, ACasePredictedToNeedFarTooMuchMemoryIsNotRun) {
  ThreadWorld::run(2, [&](World& world) {
    CpuDevice device(plenty, 1);
    RecordingRun run(device);
    const CaseRecord record = measure(world, device, run, once, 1e24);
    EXPECT_TRUE(run.calls.empty());
    EXPECT_EQ(record.status, Status::oom);
    EXPECT_EQ(value_in<double>(record.summary, "predicted_peak_bytes"), 1e24);
  });
}

TEST(MeasureCase, TheStatusOfOneRankIsThatOfAllRanks) {
  ThreadWorld::run(2, [&](World& world) {
    CpuDevice device(plenty, 1);
    RecordingRun run(device);
    if (world.rank() == 1) run.status = Status::mismatch;
    EXPECT_EQ(measure(world, device, run).status, Status::mismatch);
  });
}

// Two cold repetitions take 0.5 s and 1.5 s; the following repetitions take 1 s, 2 s, ...
class CountingRun final : public RecordingRun {
 public:
  explicit CountingRun(Device& device) : RecordingRun(device) { cold_count = 2; }
  [[nodiscard]] PhaseSeconds repetition() override { return {static_cast<double>(++done)}; }
  void add_repetitions(CaseRecord& /*record*/, std::size_t begin, std::size_t end) override {
    measured = {begin, end};
  }
  int done = 0;
  std::pair<std::size_t, std::size_t> measured;
};

TEST(MeasureCase, ColdRepetitionsAreTheFirstWarmUp) {
  ThreadWorld::run(1, [&](World& world) {
    CpuDevice device(plenty, 1);
    CountingRun run(device);
    const CaseRecord record = measure(world, device, run, {.warmup = 2, .steps = 3});
    EXPECT_EQ(record.samples.at(0).warmup.at(0), (std::vector<double>{0.5, 1.5, 1, 2}));
    EXPECT_EQ(record.samples[0].measured.at(0), (std::vector<double>{3, 4, 5}));
    EXPECT_EQ(run.measured, (std::pair<std::size_t, std::size_t>{2, 5}));
  });
}

// An experiment with one case per context.
class Contexts final : public Experiment {
 public:
  explicit Contexts(const std::vector<std::int64_t>& contexts) {
    for (const std::int64_t context : contexts) {
      Case& c = recorded_.emplace_back();
      c.set("size", std::string("small"));
      c.set("context", context);
    }
    naming_ = record_factors;
  }
  [[nodiscard]] std::string name() const override { return "contexts"; }
  [[nodiscard]] Prediction predict(std::size_t /*index*/) const override { return {}; }
  [[nodiscard]] std::string cannot_run(std::size_t /*index*/) const override { return ""; }
  void validate(std::size_t /*index*/) const override {}
  [[nodiscard]] CaseRecord run(std::size_t index, Progress& /*progress*/) override {
    ++runs;
    return make_record(std::get<std::int64_t>(cases().at(index).at("context")), {1});
  }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override { return {}; }
  [[nodiscard]] std::string notes() const override { return ""; }

  int runs = 0;
};

// The error message of both ranks, and the number of cases that each has run.
struct SweepEnd {
  std::string message;
  int runs = 0;
};

SweepEnd end_of(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& second) {
  const TempFolder folder;
  std::vector<SweepEnd> ends(2);
  ThreadWorld::run(2, [&](World& world) {
    Contexts contexts(world.rank() == 0 ? first : second);
    SweepEnd& end = ends[static_cast<std::size_t>(world.rank())];
    RunOptions options;
    options.output = (folder.path() / "out.h5").string();
    options.quiet = true;
    options.json = true;
    try {
      (void)run_sweep(contexts, world, make_run(2), options);
    } catch (const Error& error) {
      end.message = error.what();
      EXPECT_EQ(error.code(), ExitCode::usage);
    }
    end.runs = contexts.runs;
  });
  EXPECT_EQ(ends[0].message, ends[1].message);
  EXPECT_EQ(ends[0].runs, ends[1].runs);
  return ends[0];
}

TEST(Sweep, EndsBeforeACaseThatIsNotTheSameOnAllRanks) {
  const SweepEnd end = end_of({8, 16, 32}, {8, 64, 32});
  EXPECT_EQ(end.message,
            "case: context 16 (rank 0), context 64 (rank 1); give every rank the same program and "
            "the same files");
  EXPECT_EQ(end.runs, 1);
}

TEST(Sweep, DoesNotBeginWithMoreCasesOnOneRank) {
  const SweepEnd end = end_of({8, 16}, {8, 16, 32});
  EXPECT_EQ(end.message,
            "number of cases: 2 (rank 0), 3 (rank 1); give every rank the same program and the "
            "same files");
  EXPECT_EQ(end.runs, 0);
}

}  // namespace
}  // namespace paceline
