#include "measure/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "test_terminal.h"

namespace paceline {
namespace {

double test_time = 0;
double clock_of_test() { return test_time; }

std::string contents(std::FILE* file) {
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

TEST(Progress, ALinePerCaseWhereThereIsNoTerminal) {
  std::FILE* out = std::tmpfile();
  {
    Progress progress(true, 2, out, clock_of_test);
    progress.begin_case(0, "context 128");
    progress.begin_repetitions();
    test_time += 5;
    progress.repetition("step 1/2", 0.5);
    test_time += 5;
    progress.repetition("step 2/2", 1);
    progress.end_case("8.12 s");
    progress.begin_case(1, "context 256");
    test_time += 1;
    progress.end_case("oom: 2 GB asked for");
  }
  EXPECT_EQ(contents(out),
            "[1/2] context 128: step 2/2, 10 s left\n"
            "[1/2] context 128: 8.12 s (took 10 s; 10 s left)\n"
            "[2/2] context 256: oom: 2 GB asked for (took 1 s)\n");
  std::fclose(out);
}

TEST(Progress, ALineEveryTenSecondsWithinALongCase) {
  std::FILE* out = std::tmpfile();
  {
    Progress progress(true, 1, out, clock_of_test);
    progress.begin_case(0, "model");
    test_time += 11;
    progress.update("rehearsal");
    test_time += 3;
    const auto report = shown_on(progress, {.warmup = 0, .steps = 8});
    for (int i = 1; i <= 8; ++i) {
      test_time += 3;
      report(false, i, 8);
    }
    progress.end_case("step 3.00 s");
  }
  EXPECT_EQ(contents(out),
            "[1/1] model: rehearsal\n"
            "[1/1] model: step 3/8, 15 s left\n"
            "[1/1] model: step 7/8, 3 s left\n"
            "[1/1] model: step 3.00 s (took 38 s)\n");
  std::fclose(out);
}

TEST(Progress, SilentWhenDisabled) {
  std::FILE* out = std::tmpfile();
  {
    Progress progress(false, 1, out);
    progress.begin_case(0, "small");
    progress.begin_repetitions();
    progress.repetition("step 1/2", 0.5);
    progress.end_case("8.12 s");
    progress.clear();
  }
  EXPECT_EQ(std::ftell(out), 0);
  std::fclose(out);
}

TEST(Progress, RewritesOneLineOnATerminal) {
  const TestTerminal terminal;
  {
    Progress progress(true, 2, terminal.out(), clock_of_test);
    progress.begin_case(0, "small 128");
    EXPECT_EQ(terminal.read(), "\r[1/2] small 128: set-up\x1b[K");
    progress.begin_repetitions();
    test_time += 0.09;
    progress.repetition("step 1/2", 0.5);
    EXPECT_EQ(terminal.read(), "");
    test_time += 9.91;
    progress.repetition("step 1/2", 0.5);
    EXPECT_EQ(terminal.read(), "\r[1/2] small 128: step 1/2, 30 s left\x1b[K");
    test_time += 5;
    progress.repetition("step 2/2", 1);
    EXPECT_EQ(terminal.read(), "\r[1/2] small 128: step 2/2, 15 s left\x1b[K");
    progress.end_case("8.12 s");
    EXPECT_EQ(terminal.read(), "\r[1/2] small 128: 8.12 s, 15 s left\x1b[K");
    progress.begin_case(1, std::string(100, 'x'));
    EXPECT_EQ(terminal.read(), "\r[2/2] " + std::string(53, 'x') + "\x1b[K");
    progress.clear();
    EXPECT_EQ(terminal.read(), "\r\x1b[K");
    progress.clear();
    EXPECT_EQ(terminal.read(), "");
    test_time += 1;
    progress.update("rehearsal");
    (void)terminal.read();
  }
  EXPECT_EQ(terminal.read(), "\r\x1b[K");
}

TEST(Progress, AFractionOfAllRepetitionsThatNeverFalls) {
  const SamplerConfig config{.warmup = 3, .steps = 5};
  double done = 0;  // eighths
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(fraction_done(config, true, i, 3), ++done / 8);
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(fraction_done(config, false, i, 5), ++done / 8);
  EXPECT_EQ(fraction_done({.warmup = 0, .steps = 4}, false, 1, 4), 0.25);
  // At most until the interval is narrow enough.
  const SamplerConfig until{.warmup = 4, .steps = 5, .until_ci = 2, .max_steps = 16};
  EXPECT_EQ(fraction_done(until, true, 1, 4), 1.0 / 20);
  EXPECT_EQ(fraction_done(until, false, 16, 16), 1);
  EXPECT_EQ(fraction_done({.warmup = 2, .steps = 3, .until_ci = 2}, false, 6, 30), 8.0 / 32);
  // Warm-up may end early; the number of steps is extrapolated from the time so far.
  const SamplerConfig open{.warmup = 2, .max_warmup = 10, .steps = 5, .min_time = 3};
  EXPECT_EQ(fraction_done(open, true, 3, 10), 3.0 / 15);
  EXPECT_EQ(fraction_done(open, false, 4, 30), 14.0 / 40);
}

TEST(Progress, ShowsTheTimeLeftOfWarmUpAndSteps) {
  const TestTerminal terminal;
  Progress progress(true, 1, terminal.out(), clock_of_test);
  progress.begin_case(0, "small");
  const auto report = shown_on(progress, {.warmup = 3, .steps = 5});
  (void)terminal.read();
  test_time += 1;
  report(true, 1, 3);
  EXPECT_EQ(terminal.read(), "\r[1/1] small: warm-up 1/3, 7 s left\x1b[K");
  test_time += 2;
  report(true, 3, 3);
  EXPECT_EQ(terminal.read(), "\r[1/1] small: warm-up 3/3, 5 s left\x1b[K");
  test_time += 1;
  report(false, 1, 5);
  EXPECT_EQ(terminal.read(), "\r[1/1] small: step 1/5, 4 s left\x1b[K");
}

TEST(DurationText, TwoUnits) {
  EXPECT_EQ(duration_text(4.2), "4 s");
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(59.6), "1 m 0 s");
  EXPECT_EQ(duration_text(75), "1 m 15 s");
  EXPECT_EQ(duration_text(3599), "59 m 59 s");
  EXPECT_EQ(duration_text(3725), "1 h 2 m");
  EXPECT_EQ(duration_text(100'000), "1 d 3 h");
  EXPECT_EQ(duration_text(std::nan("")), "-");
}

TEST(SecondsText, ThreeDigitsWithAFittingUnit) {
  EXPECT_EQ(seconds_text(8.123), "8.12 s");
  EXPECT_EQ(seconds_text(0.0031), "3.10 ms");
  EXPECT_EQ(seconds_text(0.99), "990 ms");
  EXPECT_EQ(seconds_text(0.9999), "1.00 s");
  EXPECT_EQ(seconds_text(42e-6), "42.0 us");
  EXPECT_EQ(seconds_text(3e-9), "3.00 ns");
  EXPECT_EQ(seconds_text(3e-10), "0.300 ns");
  EXPECT_EQ(seconds_text(1234.5), "1234 s");
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(seconds_text(std::nan("")), "-");
}

}  // namespace
}  // namespace paceline
