#include "harness/conditions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "constants.h"
#include "core/clock.h"
#include "cpu/cpu_device.h"
#include "measure/sensor_log.h"
#include "temp_folder.h"
#include "thread_world.h"

namespace paceline {
namespace {

// What the sensor shows, until the test changes it.
struct Shown {
  std::atomic<double> clock = 0;
  std::atomic<ClockLimit> limits = ClockLimit::none;
  std::atomic<int> readings = 0;  // that have begun
};

class ShownSensors final : public Sensors {
 public:
  explicit ShownSensors(Shown& shown) : shown_(shown) {}
  [[nodiscard]] const std::vector<Sensor>& sensors() const override { return sensors_; }
  [[nodiscard]] bool tells_limits() const override { return true; }
  [[nodiscard]] double interval() const override { return 0.0001; }
  [[nodiscard]] Reading read() override {
    ++shown_.readings;
    return {.values = {shown_.clock}, .limits = shown_.limits};
  }

 private:
  std::vector<Sensor> sensors_ = {{"sm_clock", "hz"}};
  Shown& shown_;
};

class ShowingDevice final : public CpuDevice {
 public:
  explicit ShowingDevice(Shown& shown) : CpuDevice(plenty, 1), shown_(shown) {}
  [[nodiscard]] std::unique_ptr<Sensors> sensors() const override {
    return std::make_unique<ShownSensors>(shown_);
  }

 private:
  Shown& shown_;
};

// When two more readings have begun, the log has the first of them, and all earlier ones.
void wait_for_a_reading(const Shown& shown) {
  const int before = shown.readings;
  while (shown.readings < before + 2) std::this_thread::yield();
}

// A repetition in which every reading shows `clock` and `limits`.
HostInterval repetition_at(Shown& shown, double clock, ClockLimit limits, std::int64_t switches) {
  shown.clock = clock;
  shown.limits = limits;
  wait_for_a_reading(shown);
  HostInterval host{.begin = host_seconds(), .involuntary_switches = switches};
  wait_for_a_reading(shown);
  host.end = host_seconds();
  return host;
}

TEST(Conditions, AreSummarizedOverTheMeasuredRepetitionsOfAllRanks) {
  ThreadWorld::run(2, [](World& world) {
    Shown shown;
    const ShowingDevice device(shown);
    const Conditions conditions(device);
    const auto at = [&](double clock, ClockLimit limits, std::int64_t switches) {
      return repetition_at(shown, clock, limits, switches);
    };
    const ClockLimit none = ClockLimit::none;
    const ClockLimit power = ClockLimit::power;
    Samples samples;
    samples.warmup.host = {at(900, power, 100), at(100, none, 200)};
    if (world.rank() == 0) {
      samples.measured.host = {at(500, none, 1), at(300, power, 2), at(500, none, 0)};
    } else {
      samples.measured.host = {at(500, none, 10), at(500, power, 20), at(600, none, 0)};
    }
    CaseRecord record;
    conditions.add_to(record, world, samples);
    if (world.rank() != 0) return;
    EXPECT_EQ(value_in<double>(record.summary, "sm_clock_median_hz"), 500);
    EXPECT_EQ(value_in<double>(record.summary, "sm_clock_min_hz"), 300);
    EXPECT_EQ(value_in<double>(record.summary, "sm_clock_max_hz"), 600);
    EXPECT_EQ(value_in<std::int64_t>(record.summary, "involuntary_switches"), 1 + 2 + 10 + 20);
    // Both ranks in the same repetition.
    EXPECT_EQ(value_in<std::int64_t>(record.summary, "limited_repetitions"), 1);
    ASSERT_EQ(record.tables.size(), 1U);
    const Column* clocks = find_column(record.tables[0].columns, "sm_clock_hz");
    ASSERT_NE(clocks, nullptr);
    EXPECT_EQ(std::get<std::vector<double>>(clocks->data),
              (std::vector<double>{900, 100, 500, 300, 500, 900, 100, 500, 500, 600}));
  });
}

TEST(LoadOfOthers, IsWhatTheRanksOfAHostLeaveOfTheLoadOfTheirCores) {
  const RankLoad first{.seconds = 10, .by_process = 20, .busy = {{0, 25}, {1, 25}}};
  const RankLoad second{.seconds = 10, .by_process = 15, .busy = {{0, 25}, {1, 25}}};
  EXPECT_EQ(load_of_others({"a", "a"}, {first, second}), 1.5);
  EXPECT_EQ(load_of_others({"a"}, {{.seconds = 10, .by_process = 51, .busy = {{0, 50}}}}), 0);
  // Each rank may be bound to cores of its own.
  const RankLoad bound{.seconds = 10, .by_process = 8, .busy = {{0, 9}, {1, 5}}};
  const RankLoad elsewhere{.seconds = 10, .by_process = 9, .busy = {{1, 5}, {7, 8}}};
  EXPECT_EQ(load_of_others({"a", "a"}, {bound, elsewhere}), 0.5);
  // The busiest host counts.
  const RankLoad calm{.seconds = 10, .by_process = 28, .busy = {{0, 30}}};
  const RankLoad busy{.seconds = 10, .by_process = 20, .busy = {{0, 40}}};
  EXPECT_EQ(load_of_others({"a", "b"}, {calm, busy}), 2);
  EXPECT_EQ(load_of_others({"a", "b"}, {busy, calm}), 2);
}

TEST(LoadOfOthers, IsUnknownBelowASecond) {
  const RankLoad brief{.seconds = 0.99, .by_process = 1, .busy = {{0, 50}}};
  const RankLoad enough{.seconds = 1, .by_process = 1, .busy = {{0, 3}}};
  EXPECT_TRUE(std::isnan(load_of_others({"a"}, {brief})));
  EXPECT_EQ(load_of_others({"a", "b"}, {brief, enough}), 2);
  EXPECT_TRUE(std::isnan(load_of_others({}, {})));  // on other ranks than rank 0
}

TEST(LoadOfOthers, IsUnknownWhereTheHostsLoadCannotBeRead) {
  const RankLoad unreadable{.seconds = 10, .by_process = 1, .busy = {}};
  const RankLoad readable{.seconds = 10, .by_process = 1, .busy = {{0, 11}}};
  EXPECT_TRUE(std::isnan(load_of_others({"a"}, {unreadable})));
  EXPECT_EQ(load_of_others({"a", "b"}, {unreadable, readable}), 1);
}

TEST(BusySeconds, AreThoseOfTheCoresThatAreAskedFor) {
  const TempFolder temp;
  EXPECT_TRUE(busy_seconds({0}, temp.path()).empty());
  temp.write("proc/stat",
             "cpu  900 900 900 900 900 900 900 0 0 0\n"
             "cpu0 1000 200 30 7000 7000 4 600 5 5 5\n"
             "cpu1 900 0 0 7000 7000 0 0 0 0 0\n"
             "cpu11 100 0 0 7000 7000 0 0 0 0 0\n"
             "intr 12345 0 0\n"
             "ctxt 1");
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(busy_seconds({0, 11, 12}, temp.path()),
            (CoreSeconds{{0, 1834 / ticks}, {11, 100 / ticks}}));
}

// The first value is the number of readings so far; the second value can never be read.
class Counting final : public Sensors {
 public:
  explicit Counting(std::atomic<int>& count) : count_(count) {}
  [[nodiscard]] const std::vector<Sensor>& sensors() const override { return sensors_; }
  [[nodiscard]] bool tells_limits() const override { return true; }
  [[nodiscard]] double interval() const override { return 0.001; }
  [[nodiscard]] Reading read() override {
    const int reading = ++count_;
    return {.values = {static_cast<double>(reading), std::nan("")},
            .limits = reading == 2 ? ClockLimit::power : ClockLimit::none};
  }

 private:
  std::vector<Sensor> sensors_ = {{"count", "n"}, {"unreadable", "n"}};
  std::atomic<int>& count_;
};

void wait_for(const std::atomic<int>& count, int readings) {
  while (count < readings) std::this_thread::yield();
}

TEST(SensorLog, ReadsAtOnceAndThenPeriodically) {
  std::atomic<int> count = 0;
  {
    const SensorLog log(std::make_unique<Counting>(count));
    EXPECT_GE(count, 1);
    wait_for(count, 5);
  }
  const int last = count;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(count, last);  // the reading thread has ended
}

TEST(SensorLog, AveragesTheReadingsOfASpanAndKeepsTheirLimits) {
  std::atomic<int> count = 0;
  const double begin = host_seconds();
  const SensorLog log(std::make_unique<Counting>(count));
  wait_for(count, 6);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const double end = host_seconds();
  const Reading all = log.during(begin, end);
  EXPECT_GE(all.values[0], 3);  // the mean of 1, 2, ..., n with n >= 6
  EXPECT_TRUE(std::isnan(all.values[1]));
  EXPECT_EQ(all.limits, ClockLimit::power);
}

TEST(ReadingDuring, WithoutReadingsIsTheNearestOne) {
  const std::vector<TimedReading> readings = {{.time = 10, .reading = {.values = {1}}},
                                              {.time = 20, .reading = {.values = {2}}}};
  EXPECT_EQ(reading_during(readings, 1, 2).values, std::vector<double>{1});
  EXPECT_EQ(reading_during(readings, 12, 13).values, std::vector<double>{1});
  EXPECT_EQ(reading_during(readings, 17, 18).values, std::vector<double>{2});
  EXPECT_EQ(reading_during(readings, 13, 19).values, std::vector<double>{2});
  EXPECT_EQ(reading_during(readings, 11, 16).values, std::vector<double>{1});
  EXPECT_EQ(reading_during(readings, 30, 40).values, std::vector<double>{2});
}

TEST(ReadingDuring, IsTheMeanOfTheReadingsThatSucceeded) {
  const double nan = std::nan("");
  const std::vector<TimedReading> readings = {
      {.time = 9, .reading = {.values = {99, 99}, .limits = ClockLimit::hardware}},
      {.time = 10, .reading = {.values = {1, nan}, .limits = ClockLimit::power}},
      {.time = 11, .reading = {.values = {nan, nan}}},
      {.time = 12, .reading = {.values = {4, nan}, .limits = ClockLimit::thermal}},
      {.time = 13, .reading = {.values = {99, 99}, .limits = ClockLimit::hardware}}};
  const Reading mean = reading_during(readings, 10, 13);
  EXPECT_EQ(mean.values.at(0), 2.5);
  EXPECT_TRUE(std::isnan(mean.values.at(1)));
  EXPECT_EQ(mean.limits, ClockLimit::power | ClockLimit::thermal);
}

TEST(ClockLimits, HaveNames) {
  EXPECT_EQ(name_of(ClockLimit::none), "");
  EXPECT_EQ(name_of(ClockLimit::thermal), "thermal");
  EXPECT_EQ(name_of(ClockLimit::power | ClockLimit::hardware), "power and hardware");
}

TEST(CpuSensors, ReadWhatLinuxShows) {
  const TempFolder root;
  CpuSensors none({0, 1}, root.path());
  EXPECT_TRUE(std::isnan(none.read().values.at(0)));
  EXPECT_TRUE(std::isnan(none.read().values.at(1)));

  root.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000");
  root.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000");
  root.write("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "9000000");
  root.write("sys/class/thermal/thermal_zone0/temp", "41000");
  root.write("sys/class/thermal/thermal_zone1/temp", "55500");
  CpuSensors both({0, 1}, root.path());
  EXPECT_EQ(both.read().values.at(0), 2.5e9);
  EXPECT_EQ(both.read().values.at(1), 55.5);
  EXPECT_EQ(both.sensors().size(), both.read().values.size());
}

}  // namespace
}  // namespace paceline
