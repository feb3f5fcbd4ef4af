#pragma once
// MpiWatchdog: ends a launch whose ranks wait for each other for longer than the timeout, and
// prints one line with the case, the operation that did not finish, and the ranks that did not
// arrive with their hosts.
//
// A thread of every rank checks the rank's waits every 50 ms, on a clock that stops while the
// thread does not run. When a wait times out, the thread asks every other rank whether it is in the
// same operation. The watchdog threads of the other ranks answer, whatever their ranks do. If the
// wait still lasts 2 s later, the lowest rank that asked prints the line and aborts the launch. A
// step (a wait for collectives) is not reported while a rank is inside a collective of that step:
// that rank reports the collective, which is more precise. Operations are identified by their text.
// Sequence numbers would differ between ranks as soon as a communicator of fewer ranks has been
// used.
//
// The thread also polls the monitored Abortables and ends the launch for their errors.

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/watchdog.h"
#include "mpi/wait_registry.h"
#include "mpi/watchdog_timeouts.h"

namespace paceline {

class MpiWatchdog final : public Watchdog {
 public:
  // The operation of a rank that no other rank needs: it never times out and does not count as a
  // rank that did not arrive.
  static constexpr std::string_view idle = "idle";

  // Construction and destruction are collective over MPI_COMM_WORLD; the destructor waits for no
  // other rank.
  explicit MpiWatchdog(double timeout_seconds);
  ~MpiWatchdog() override;

  void begin_wait(std::string_view what, WaitFor target) override { waits_.begin(what, target); }
  void end_wait() override;
  void monitor(Abortable& abortable) override;
  void stop_monitoring(Abortable& abortable) override;

 private:
  using Clock = WaitRegistry::Clock;

  // What a rank does, as seen from the operation that it is asked about.
  enum class RankState : std::uint8_t {
    unknown,        // it has not answered
    busy,           // it waits for nothing
    in_other_wait,  // which may come before this one or after it
    idle,
    in_this_wait,
    in_collective,  // in this wait for collectives, and in a wait for ranks of its own
  };

  struct Message {
    std::uint64_t wait_id;  // of the asking rank; an answer repeats it
    RankState state;        // answers only
    WaitFor target;         // questions only
    // A question's operation; an answer's is the outermost one that the rank waits in instead.
    std::array<char, WaitRegistry::text_size> what;
  };
  // At most one message of a kind is in flight to a rank: none queue up for a rank that hangs.
  struct PendingSend {
    MPI_Request request = MPI_REQUEST_NULL;
    Message message{};
  };

  void run(const std::stop_token& stop);
  // The active waits that can time out: those for collectives only while something is monitored.
  [[nodiscard]] std::vector<WaitRegistry::Wait> checked_waits() const;
  void check_waits();
  [[nodiscard]] bool has_timed_out(const WaitRegistry::Wait& wait, Clock::time_point now) const;
  void ask_other_ranks();
  void receive_messages();
  // Turns a question into this rank's answer.
  void answer(Message& message) const;
  void send(std::vector<PendingSend>& sends, int to, int tag, const Message& message);
  void poll_monitored();
  [[nodiscard]] std::string timeout_line();
  // "ranks 0, 1 on node3"
  [[nodiscard]] std::string with_hosts(const std::vector<int>& ranks) const;
  [[noreturn]] void abort_launch(const std::string& line);

  WaitRegistry waits_;
  std::atomic<bool> aborting_ = false;
  mutable std::mutex mutex_;  // protects monitored_
  std::vector<Abortable*> monitored_;
  // The rest is used by the watchdog's thread alone.
  WatchdogTimeouts timeouts_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::string> hosts_;  // by rank
  std::uint64_t begun_ = 0;         // waits.begun() at the last poll
  Clock::time_point last_begin_;
  std::vector<PendingSend> questions_;  // by rank
  std::vector<PendingSend> answers_;    // by rank
  WaitRegistry::Wait late_wait_{};      // the wait that timed out; id 0: none has
  Clock::time_point asked_at_;
  Clock::time_point lower_rank_asked_at_ = Clock::time_point::min();
  std::vector<RankState> states_;     // by rank, in late_wait_
  std::vector<std::string> instead_;  // by rank, the operation it waits in instead
  std::jthread thread_;
};

}  // namespace paceline
