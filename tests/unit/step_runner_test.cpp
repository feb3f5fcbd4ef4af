#include "experiments/training/step_runner.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

// An event that was reached at a given time.
class At final : public Event {
 public:
  explicit At(double seconds) : seconds_(seconds) {}
  void synchronize() override {}
  [[nodiscard]] double seconds_since(const Event& earlier) const override {
    return seconds_ - dynamic_cast<const At&>(earlier).seconds_;
  }

 private:
  double seconds_;
};
EventPtr at(double seconds) { return std::make_shared<At>(seconds); }

Exchange exchange(double begin, double end) {
  return {.op = "all_gather", .what = "w", .begin = at(begin), .end = at(end)};
}

// forward, backward, communication_exposed, optimizer, step
const PhaseSeconds phase_seconds = {1, 2, 0.5, 0.25, 4};

TEST(CommunicationTimes, WaitsForParametersAreExposed) {
  PhaseSeconds seconds = phase_seconds;
  add_communication_times(seconds, {exchange(0, 0.25), exchange(2, 3)},
                          {{"a", at(0), at(0.125)}, {"b", at(1), at(1.5)}});
  EXPECT_EQ(seconds, (PhaseSeconds{1, 2, 1.125, 0.25, 1.25, 4}));
}

TEST(CommunicationTimes, WithoutWaitsTheTimeAfterBackwardIsExposed) {
  PhaseSeconds seconds = phase_seconds;
  add_communication_times(seconds, {exchange(1, 1.5)}, {});
  EXPECT_EQ(seconds, (PhaseSeconds{1, 2, 0.5, 0.25, 0.5, 4}));
}

TEST(CommunicationTimes, WaitsAreSplitAtTheEndOfForward) {
  const WaitSeconds waited =
      wait_seconds({{"a", at(0), at(0.125)}, {"b", at(0.5), at(1)}, {"c", at(1), at(1.25)}}, At(1));
  EXPECT_EQ(waited.forward, 0.625);
  EXPECT_EQ(waited.backward, 0.25);
}

TEST(HostWaits, ReplaceTheTimeOfTheirPhase) {
  PhaseSeconds seconds = {1, 2, 0.25};
  add_host_waits(seconds, {{1, 1.5}, {2, 2.5}, {3, 0.5}});
  EXPECT_EQ(seconds, (PhaseSeconds{1.5, 2.5, 0.5}));
  add_host_waits(seconds, {});
  EXPECT_EQ(seconds, (PhaseSeconds{1.5, 2.5, 0.5}));
}

// backward, communication_exposed and optimizer are one graph.
TEST(HostWaits, OfSeveralPhasesGiveTheFirstWhatTheOthersDidNotTake) {
  PhaseSeconds seconds = {1, 2, 0.5, 0.25};
  add_host_waits(seconds, {{1, 1.5}, {4, 4}});
  EXPECT_EQ(seconds, (PhaseSeconds{1.5, 3.25, 0.5, 0.25}));
}

}  // namespace
}  // namespace paceline
