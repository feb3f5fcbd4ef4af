#include "mpi/mpi_watchdog.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <ranges>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/screen.h"
#include "core/world.h"
#include "mpi/check.h"

namespace paceline {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto poll_interval = 50ms;
constexpr milliseconds longest_tick = 4 * poll_interval;
constexpr auto patience = 2s;  // after the timeout, for a rank that is about to arrive
// For as long a rank leaves the report to each rank before it, which may have died.
constexpr auto report_grace = 7s;
constexpr std::chrono::duration<double> longest_silence = 5s;
constexpr auto abort_timeout = 1s;
constexpr auto abort_stagger = 200ms;

// What a rank tells the others once it has waited for 5 s, or for half of a shorter timeout.
struct Notice {
  std::array<char, 64> what{};  // ends with a zero; longer texts are cut; empty: not waiting
  WaitFor target{};

  [[nodiscard]] bool waits() const { return what.front() != '\0'; }
  [[nodiscard]] bool is_idle() const { return what.data() == idle; }
  bool operator==(const Notice&) const = default;
};

struct Wait {
  Notice notice;
  milliseconds since;
  std::thread::id thread;
};

struct Rank {
  std::string host;
  Notice notice;  // its last one
  Notice sent;    // this rank's last message to it
  MPI_Request sending = MPI_REQUEST_NULL;
};

class MpiWatchdog final : public Watchdog {
 public:
  explicit MpiWatchdog(double timeout_seconds) : timeout_(timeout_seconds) {
    MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    MPI_CHECK(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
    int size = 0;
    MPI_CHECK(MPI_Comm_size(comm_, &size));
    using Name = std::array<char, 64>;
    std::vector<Name> hosts(static_cast<std::size_t>(size));
    Name mine{};
    node_name().copy(mine.data(), mine.size() - 1);
    MPI_CHECK(MPI_Allgather(mine.data(), sizeof mine, MPI_BYTE, hosts.data(), sizeof mine, MPI_BYTE,
                            comm_));
    for (const Name& host : hosts) ranks_[static_cast<int>(ranks_.size())].host = host.data();
    if (size > 1) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  ~MpiWatchdog() override {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    for (auto& [_, other] : ranks_) {
      if (other.sending == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&other.sending);
      MPI_Request_free(&other.sending);
    }
    MPI_Comm_free(&comm_);
  }

  void begin_wait(std::string_view what, WaitFor target) override {
    Wait wait{{{}, target}, now_, std::this_thread::get_id()};
    what.copy(wait.notice.what.data(), wait.notice.what.size() - 1);
    const std::lock_guard lock(mutex_);
    waits_.push_back(wait);
    last_begin_ = wait.since;
  }
  void end_wait() override {
    const std::lock_guard lock(mutex_);
    const auto mine = std::find_if(waits_.rbegin(), waits_.rend(), [](const Wait& wait) {
      return wait.thread == std::this_thread::get_id();
    });
    waits_.erase(std::next(mine).base());
  }
  void monitor(Abortable& abortable) override {
    const std::lock_guard lock(mutex_);
    monitored_.push_back(&abortable);
  }
  void stop_monitoring(Abortable& abortable) override {
    const std::lock_guard lock(mutex_);
    std::erase(monitored_, &abortable);
  }

 private:
  void run(const std::stop_token& stop) {
    auto last_poll = std::chrono::steady_clock::now();
    while (!stop.stop_requested()) {
      check_wait();
      poll_monitored();
      std::this_thread::sleep_for(poll_interval);
      const auto poll = std::chrono::steady_clock::now();
      const auto elapsed = std::chrono::duration_cast<milliseconds>(poll - last_poll);
      now_ = now_.load() + std::min(elapsed, longest_tick);
      last_poll += elapsed;
    }
  }

  // The oldest wait for ranks, which is one call; else the oldest for collectives, which names only
  // the step around them, and counts only while something is monitored.
  [[nodiscard]] std::optional<Wait> current_wait() const {
    const std::lock_guard lock(mutex_);
    std::optional<Wait> found;
    for (const Wait& wait : waits_) {
      const WaitFor target = wait.notice.target;
      if (target == WaitFor::collectives && monitored_.empty()) continue;
      if (!found || target < found->notice.target) found = wait;
    }
    if (found && found->notice.target == WaitFor::collectives) found->since = last_begin_;
    return found;
  }

  // MPI is called only in long waits and when one ends.
  void check_wait() {
    const std::optional<Wait> wait = current_wait();
    const std::chrono::duration<double> waited = wait ? now_.load() - wait->since : 0ms;
    const bool is_long = wait && waited >= std::min(timeout_ / 2, longest_silence);
    announce(is_long ? wait->notice : Notice{});
    if (!is_long) return;
    receive_notices();
    const std::chrono::duration<double> most = timeout_ + patience + ranks_before() * report_grace;
    if (waited > most && !wait->notice.is_idle()) abort_launch(timeout_line());
  }

  // At most one message is in flight to a rank; the next poll sends what this one could not. MPI
  // errors are ignored: they mean that the other rank has died.
  void announce(const Notice& notice) {
    ranks_[rank_].notice = notice;
    for (auto& [rank, other] : ranks_) {
      int done = 0;
      if (rank == rank_ || other.sent == notice) continue;
      if (MPI_Test(&other.sending, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0) continue;
      other.sent = notice;
      MPI_Isend(&other.sent, sizeof other.sent, MPI_BYTE, rank, 0, comm_, &other.sending);
    }
  }

  void receive_notices() {
    int arrived = 0;
    MPI_Status status;
    while (MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &arrived, &status) == MPI_SUCCESS && arrived != 0) {
      const int from = status.MPI_SOURCE;
      MPI_Recv(&ranks_[from].notice, sizeof(Notice), MPI_BYTE, from, 0, comm_, MPI_STATUS_IGNORE);
    }
  }

  [[nodiscard]] const Notice& mine() const { return ranks_.at(rank_).notice; }

  // How many ranks are to report before this one: those in waits for ranks by their numbers, then
  // those in waits for collectives.
  [[nodiscard]] std::ptrdiff_t ranks_before() const {
    return std::ranges::count_if(ranks_, [this](const auto& one) {
      const auto& [rank, other] = one;
      return other.notice.waits() && !other.notice.is_idle() &&
             std::pair(other.notice.target, rank) < std::pair(mine().target, rank_);
    });
  }

  void poll_monitored() {
    std::string error;
    {
      const std::lock_guard lock(mutex_);
      for (Abortable* abortable : monitored_) {
        if (error.empty()) error = abortable->async_error();
      }
    }
    if (error.empty()) return;
    // Ranks abort one after the other, so that one line is printed if all ranks see the error.
    std::this_thread::sleep_for(std::min(rank_, 10) * abort_stagger);
    abort_launch(error);
  }

  [[nodiscard]] std::string timeout_line() const {
    std::map<std::string, std::vector<int>> others;  // by what they did
    for (const auto& [rank, other] : ranks_) {
      const Notice& notice = other.notice;
      if (notice.is_idle() || notice.what == mine().what) continue;
      const std::string did =
          notice.waits() ? fmt::format("waited in another operation ({})", notice.what.data())
                         : "did not arrive";
      others[did].push_back(rank);
    }
    std::vector<std::string> causes;
    for (const auto& [did, ranks] : others) causes.push_back(with_hosts(ranks) + " " + did);
    if (causes.empty()) causes.emplace_back("every rank arrived");
    const std::string name = current_case();
    return fmt::format("{}{} did not finish in {:g} s; {}; raise --timeout if it only needs longer",
                       name.empty() ? "" : name + ": ", mine().what.data(), timeout_.count(),
                       fmt::join(causes, ", "));
  }

  // "ranks 0, 1 on node3"
  [[nodiscard]] std::string with_hosts(const std::vector<int>& ranks) const {
    std::set<std::string> hosts;
    for (const int rank : ranks) hosts.insert(ranks_.at(rank).host);
    const std::string more = hosts.size() > 4 ? " and others" : "";
    return fmt::format("{} on {}{}", ranks_text(ranks),
                       fmt::join(hosts | std::views::take(4), ", "), more);
  }

  [[noreturn]] void abort_launch(const std::string& line) {
    // Held until the process ends, so that no wait returns: the rank must not go on after an
    // aborted collective.
    const std::lock_guard until_the_end(mutex_);
    write_to(stderr, "paceline: rank {}: {}\n", rank_, line);
    // In threads of their own: an abort may hang, or wait for that of another communicator.
    std::counting_semaphore<> aborted(0);
    for (Abortable* abortable : monitored_) {
      std::thread([&aborted, abortable] {
        abortable->abort();
        aborted.release();
      }).detach();
    }
    const auto last = std::chrono::steady_clock::now() + abort_timeout;
    for (std::size_t i = 0; i < monitored_.size(); ++i) (void)aborted.try_acquire_until(last);
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::collective));
    std::abort();
  }

  // Advances by longest_tick at most between two polls, on an overloaded machine or after SIGSTOP:
  // waits of a process that could not run do not time out.
  std::atomic<milliseconds> now_ = 0ms;
  mutable std::mutex mutex_;  // protects the next three
  std::vector<Wait> waits_;   // oldest first
  milliseconds last_begin_{0};
  std::vector<Abortable*> monitored_;
  // The rest is used by the watchdog's thread alone.
  const std::chrono::duration<double> timeout_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::map<int, Rank> ranks_;  // this one included
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Watchdog> make_mpi_watchdog(double timeout_seconds) {
  return std::make_unique<MpiWatchdog>(timeout_seconds);
}

}  // namespace paceline
