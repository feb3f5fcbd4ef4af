#pragma once
// How long the watchdog's threads wait before they act. A wait for other ranks that never ends ends
// the launch within the timeout and the sum of what follows.

#include <chrono>

namespace paceline {

class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds look_every{50};
  static constexpr std::chrono::seconds answers_take{2};
  // A rank that timed out leaves the word to a lower one: long enough for that one's answers and
  // for the launcher to end all, short enough to speak itself should that one have died.
  static constexpr std::chrono::seconds lower_rank_speaks_within{7};
  static constexpr std::chrono::seconds aborts_take{1};

  explicit Patience(double timeout_seconds) : timeout_(timeout_seconds) {}

  [[nodiscard]] double timeout_seconds() const { return timeout_.count(); }
  // Whether a wait that began then has stood for too long: the other ranks are asked about it.
  [[nodiscard]] bool is_late(Clock::time_point since, Clock::time_point now) const {
    return now - since > timeout_;
  }
  // Whether a rank ends the launch for a wait that it asked about, and that still stands.
  // lower_rank_asked_at: Clock::time_point::min() where none did.
  [[nodiscard]] static bool speaks(Clock::time_point asked_at,
                                   Clock::time_point lower_rank_asked_at, Clock::time_point now) {
    return now > asked_at + answers_take && now > lower_rank_asked_at + lower_rank_speaks_within;
  }

 private:
  std::chrono::duration<double> timeout_;
};

}  // namespace paceline
