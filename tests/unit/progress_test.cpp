#include "measure/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <thread>

#include "test_terminal.h"

namespace paceline {
namespace {

double test_time = 0;
double clock_of_test() { return test_time; }

// What `use` makes a Progress write where there is no terminal.
std::string written(const std::vector<double>& work, const std::function<void(Progress&)>& use) {
  std::FILE* out = std::tmpfile();
  {
    Progress progress(out, work, clock_of_test);
    use(progress);
  }
  std::string text(static_cast<std::size_t>(std::ftell(out)), '\0');
  std::rewind(out);
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  return text;
}

// A case of `seconds` set-up and as many of repetitions.
void take(Progress& progress, std::size_t index, double seconds) {
  progress.begin_case(index, "case");
  test_time += seconds;
  progress.update("steps");
  test_time += seconds;
  progress.update("step", 1);
}

TEST(Progress, ALinePerCaseWhereThereIsNoTerminal) {
  const std::string lines = written({1, 1}, [](Progress& progress) {
    progress.begin_case(0, "context 128");
    progress.update("steps");
    test_time += 5;
    progress.update("step 1/2", 0.5);
    test_time += 4;
    progress.update("step 2/2", 1);
    test_time += 1;
    progress.end_case("8.12 s");
    progress.begin_case(1, "context 256");
    test_time += 1;
    progress.end_case("oom: 2 GB asked for");
    progress.clear();
  });
  EXPECT_EQ(lines,
            "[1/2] context 128: 8.12 s (took 10 s; 10 s left)\n"
            "[2/2] context 256: oom: 2 GB asked for (took 1 s)\n");
}

TEST(Progress, ALineEveryTenSecondsWithinALongCase) {
  test_time = 0;
  const std::string lines = written({1}, [](Progress& progress) {
    progress.begin_case(0, "model");
    test_time += 11;
    progress.update("rehearsal");
    test_time += 3;
    progress.update("steps");
    for (int i = 1; i <= 8; ++i) {
      test_time += 3;
      progress.update("step", i / 8.0);
    }
    progress.end_case("step 3.00 s");
  });
  EXPECT_EQ(lines,
            "[1/1] model: rehearsal (11 s)\n"
            "[1/1] model: step (23 s; 15 s left)\n"
            "[1/1] model: step (35 s; 3 s left)\n"
            "[1/1] model: step 3.00 s (took 38 s)\n");
}

TEST(Progress, RewritesOneLineOnATerminalAndLeavesFinishedCases) {
  const TestTerminal terminal;
  test_time = 0;
  {
    Progress progress(terminal.out(), {1, 1}, clock_of_test);
    progress.begin_case(0, "small 128");
    EXPECT_EQ(terminal.read(), "\r[1/2] small 128: set-up (0 s)\x1b[K");
    test_time += 5;
    progress.update("rehearsal");
    EXPECT_EQ(terminal.read(), "\r[1/2] small 128: rehearsal (5 s)\x1b[K");
    test_time += 0.09;
    progress.update("steps");
    EXPECT_EQ(terminal.read(), "") << "too soon";
    test_time += 5;
    progress.update("step 1/2", 0.5);
    EXPECT_EQ(terminal.read(), "\r[1/2] small 128: step 1/2 (10 s; 20 s left)\x1b[K");
    progress.end_case("8.12 s");
    EXPECT_EQ(terminal.read(), "\r[1/2] small 128: 8.12 s (took 10 s; 10 s left)\x1b[K\r\n");
    test_time += 1;
    progress.begin_case(1, std::string(100, 'x'));
    EXPECT_EQ(terminal.read(),
              "\r[2/2] " + std::string(27, 'x') + ": set-up (11 s; 10 s left)\x1b[K");
    test_time += 4;
    progress.update("rehearsal");
    EXPECT_EQ(terminal.read(),
              "\r[2/2] " + std::string(25, 'x') + ": rehearsal (15 s; 6 s left)\x1b[K");
    progress.clear();
    EXPECT_EQ(terminal.read(), "\r\x1b[K");
  }
  EXPECT_EQ(terminal.read(), "\r\x1b[K");
}

TEST(Progress, TheTimeGoesOnWhileAStageLasts) {
  const TestTerminal terminal;
  Progress progress(terminal.out());
  progress.begin_case(0, "small");
  std::string shown;
  for (int i = 0; i < 200 && shown.find("set-up (1 s)") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    shown += terminal.read();
  }
  EXPECT_NE(shown.find("\r[1/1] small: set-up (1 s)\x1b[K"), std::string::npos) << shown;
}

TEST(Progress, ShowsMinutesAndHours) {
  const auto shown_after = [](double seconds) {
    const TestTerminal terminal;
    Progress progress(terminal.out(), {1}, clock_of_test);
    progress.begin_case(0, "a");
    (void)terminal.read();
    test_time += seconds;
    progress.update("b");
    return terminal.read();
  };
  EXPECT_EQ(shown_after(59.4), "\r[1/1] a: b (59 s)\x1b[K");
  EXPECT_EQ(shown_after(59.6), "\r[1/1] a: b (1 m 0 s)\x1b[K");
  EXPECT_EQ(shown_after(3599), "\r[1/1] a: b (59 m 59 s)\x1b[K");
  EXPECT_EQ(shown_after(3725), "\r[1/1] a: b (1 h 2 m)\x1b[K");
}

// What is said to be left after the first of these cases took 1 s of set-up and 1 s of repetitions.
std::string left_after(const std::vector<double>& work) {
  const std::string text = written(work, [](Progress& progress) {
    take(progress, 0, 1);
    progress.end_case("");
  });
  return text.substr(text.find('('));
}

TEST(TimeLeft, OfCasesToComeFollowsTheirWork) {
  EXPECT_EQ(left_after({1, 10, 10}), "(took 2 s; 40 s left)\n");
  EXPECT_EQ(left_after({10, 1, 1}), "(took 2 s; 0 s left)\n");
  EXPECT_EQ(left_after({5, 0, 5, 0}), "(took 2 s; 2 s left)\n");  // 0: others serve the case
  for (const double unknown : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(left_after({5, unknown}), "(took 2 s; 2 s left)\n");  // counts as the others
  }
}

TEST(TimeLeft, SmallCasesTeachTheLatencyThatWorkDoesNotExplain) {
  const std::string text = written({1, 2, 100}, [](Progress& progress) {
    for (std::size_t i = 0; i < 2; ++i) {
      take(progress, i, i == 0 ? 5 : 5.5);  // 10 s, 11 s: 9 + work
      progress.end_case("");
    }
  });
  EXPECT_TRUE(text.ends_with("(took 11 s; 1 m 49 s left)\n")) << text;
}

TEST(TimeLeft, CasesThatEndWithoutRepetitionsTeachNothing) {
  const std::string text = written({1, 1}, [](Progress& progress) {
    progress.begin_case(0, "a");
    test_time += 1;
    progress.end_case("oom");
  });
  EXPECT_EQ(text, "[1/2] a: oom (took 1 s)\n");
}

}  // namespace
}  // namespace paceline
