#pragma once
// Watchdog: ends a run whose ranks wait for each other for longer than the timeout, and says in one
// line which operation did not finish and which ranks did not arrive.
//
// A thread of every rank looks at its rank's waits every 50 ms, in the time that it lives through
// itself. Once one has stood for longer than the timeout, the thread asks every other rank: are you
// in this operation too? The other ranks' threads answer, whatever those ranks do. If the wait
// still stands 2 s later, the lowest rank that asked prints the line and aborts the launch. A wait
// for collectives is left to the ranks that are in a call for one of them: theirs is the more
// precise name. Ranks agree on an operation by its text: numbers would differ between ranks once a
// communicator of fewer ranks has been used.
//
// The thread also polls what it guards, and ends the launch for what failed there by itself.

#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/world.h"
#include "mpi/patience.h"

namespace paceline {

// What the threads of this rank wait in, for one more thread to look at. There is one per process.
class Waits {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t text_size = 64;  // with the final zero; longer ones are cut

  struct Wait {
    std::uint64_t number;  // from 1; no other wait of this rank has it
    Clock::time_point since;
    WaitFor whom;
    std::string what;
  };

  // Within a thread they nest. No lock and no system call.
  void begin(std::string_view what, WaitFor whom);
  void end();
  [[nodiscard]] std::vector<Wait> standing() const;
  // The time that waits are measured in; the looking thread advances it.
  [[nodiscard]] LivedTime& time() { return time_; }
  // How many have begun so far.
  [[nodiscard]] std::uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }

 private:
  // Written by the thread that has taken it. The looking thread takes nothing: it reads the number,
  // the rest, and the number again; if that has changed, so has the rest.
  struct Slot {
    std::atomic<bool> taken = false;
    std::atomic<std::uint64_t> number = 0;  // 0: no wait stands here
    std::atomic<Clock::time_point> since = Clock::time_point();
    std::atomic<WaitFor> whom = WaitFor::ranks;
    std::array<std::atomic<char>, text_size> what{};
    Slot* outer = nullptr;  // the wait of the same thread that this one stands in
  };

  static thread_local Slot* innermost;

  LivedTime time_{Clock::now()};
  std::array<Slot, 32> slots_;
  std::atomic<std::uint64_t> begun_ = 0;
};

class Watchdog final : public Watch {
 public:
  // What a rank that no other rank need wait for is in: it never times out, nor does it count as
  // one that did not arrive.
  static constexpr std::string_view idle = "idle";

  // Collective over MPI_COMM_WORLD, as is the destructor, which waits for no other rank.
  explicit Watchdog(double timeout_seconds);
  ~Watchdog() override;

  void begin(std::string_view what, WaitFor whom) override { waits_.begin(what, whom); }
  void end() override;
  void at(std::string_view work) override;
  void guard(Guarded& guarded) override;
  void release(Guarded& guarded) override;

 private:
  using Clock = Waits::Clock;

  // Where a rank is, seen from an operation. One that waits for others elsewhere may be past it.
  // One that is inside waits for collectives, too, and is in a call of its own for one of them.
  enum class Place : std::uint8_t { unknown, busy, waiting, idle, there, inside };

  struct Message {
    std::uint64_t number;  // the asking rank's number of the wait; an answer repeats it
    Place place;           // of an answer
    WaitFor whom;          // of a question, as `what`
    std::array<char, Waits::text_size> what;
  };
  // To one rank one message of a kind is under way at most: none queue up for one that never reads.
  struct Mail {
    MPI_Request request = MPI_REQUEST_NULL;
    Message message{};
  };

  void run(const std::stop_token& stop);
  // Those that count: waits for collectives only while something is guarded.
  [[nodiscard]] std::vector<Waits::Wait> counted() const;
  void look();
  [[nodiscard]] bool is_late(const Waits::Wait& wait, Clock::time_point now) const;
  void ask();
  void receive();
  [[nodiscard]] Place place_in(std::string_view operation, WaitFor whom) const;
  void send(std::vector<Mail>& mails, int to, int tag, const Message& message);
  void look_after_guarded();
  [[nodiscard]] std::string line_of_timeout();
  [[noreturn]] void end_launch(const std::string& line);

  Waits waits_;
  std::atomic<bool> launch_ends_ = false;
  mutable std::mutex mutex_;  // of what follows
  std::string work_;
  std::vector<Guarded*> guarded_;
  Patience patience_;
  MPI_Comm comm_ = MPI_COMM_NULL;  // of the thread alone
  int rank_ = 0;
  int size_ = 1;
  std::uint64_t begun_ = 0;  // waits, at the last look
  Clock::time_point last_begun_at_;
  std::vector<Mail> questions_;  // by rank, as all that follow
  std::vector<Mail> answers_;
  Waits::Wait asked_{};  // the wait that timed out; number 0: none has
  Clock::time_point asked_at_;
  Clock::time_point lower_rank_asked_at_ = Clock::time_point::min();
  std::vector<Place> places_;
  std::jthread thread_;
};

}  // namespace paceline
