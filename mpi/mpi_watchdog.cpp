#include "mpi/mpi_watchdog.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <optional>
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
constexpr auto answer_timeout = 2s;
// If another rank reports, this one leaves the abort to it for as long as that one waits for
// answers and the launcher shuts down; then the other may have died.
constexpr auto report_grace = 7s;
constexpr auto abort_timeout = 1s;
constexpr auto abort_stagger = 200ms;

struct Wait {
  std::array<char, 64> what;  // ends with a zero; longer texts are cut
  WaitFor target;
  milliseconds since;
  std::uint64_t number;  // of this rank's waits, from 1
};

// The active waits of a rank, oldest first; as many as fit.
struct State {
  std::array<Wait, 4> waits;
  std::size_t count;

  template <class Predicate>
  [[nodiscard]] bool any(const Predicate& is) const {
    return std::any_of(waits.begin(), waits.begin() + count, is);
  }
  // Operations are identified by their text: numbers would differ between ranks as soon as a
  // communicator of fewer ranks has been used.
  [[nodiscard]] bool waits_in(const Wait& wait) const {
    return any([&](const Wait& other) { return other.what == wait.what; });
  }
  // A step with a rank inside one of its collectives is not reported: that rank reports the
  // collective, which is more precise.
  [[nodiscard]] bool is_in_collective_of(const Wait& wait) const {
    return wait.target == WaitFor::collectives && waits_in(wait) && any([](const Wait& other) {
             return other.target == WaitFor::ranks && other.what.data() != idle;
           });
  }
};

// Sent by a rank with a late wait to all others, which answer with their states.
struct Message {
  State state;
  Wait late;  // number 0: an answer
};

// The hosts of all ranks, by rank. Collective over `comm`.
std::vector<std::string> gather_hosts(MPI_Comm comm, int size) {
  using Name = std::array<char, 64>;
  Name mine{};
  node_name().copy(mine.data(), mine.size() - 1);
  std::vector<Name> all(static_cast<std::size_t>(size));
  MPI_CHECK(
      MPI_Allgather(mine.data(), sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm));
  std::vector<std::string> hosts;
  for (const Name& host : all) hosts.emplace_back(host.data());
  return hosts;
}

class MpiWatchdog final : public Watchdog {
 public:
  explicit MpiWatchdog(double timeout_seconds) : timeout_(timeout_seconds) {
    MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    MPI_CHECK(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
    int size = 0;
    MPI_CHECK(MPI_Comm_size(comm_, &size));
    hosts_ = gather_hosts(comm_, size);
    states_.resize(hosts_.size());
    asked_by_at_.assign(hosts_.size(), -report_grace);
    sent_.resize(hosts_.size(), {{}, MPI_REQUEST_NULL});
    if (size > 1) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  ~MpiWatchdog() override {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    for (auto& [message, request] : sent_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    MPI_Comm_free(&comm_);
  }

  void begin_wait(std::string_view what, WaitFor target) override {
    Wait wait{{}, target, now_, 0};
    what.copy(wait.what.data(), wait.what.size() - 1);
    const std::lock_guard lock(mutex_);
    wait.number = ++begun_;
    waits_[std::this_thread::get_id()].push_back(wait);
  }
  // Once the launch is being aborted no wait returns: the rank must not go on after an aborted
  // collective.
  void end_wait() override {
    while (aborting_) std::this_thread::sleep_for(1s);
    const std::lock_guard lock(mutex_);
    waits_[std::this_thread::get_id()].pop_back();
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
    std::mutex mutex;
    std::condition_variable_any wake;  // notified by the stop request alone
    std::unique_lock lock(mutex);
    auto last_poll = std::chrono::steady_clock::now();
    while (!stop.stop_requested()) {
      receive_messages();
      check_waits();
      poll_monitored();
      wake.wait_for(lock, stop, poll_interval, [] { return false; });
      const auto poll = std::chrono::steady_clock::now();
      const auto elapsed = std::chrono::duration_cast<milliseconds>(poll - last_poll);
      now_ = now_.load() + std::min(elapsed, longest_tick);
      last_poll += elapsed;
    }
  }

  // Waits for collectives count only while something is monitored.
  [[nodiscard]] State state() const {
    const std::lock_guard lock(mutex_);
    std::map<std::uint64_t, Wait> ordered;
    for (const auto& [thread, waits] : waits_) {
      for (const Wait& wait : waits) {
        if (wait.target == WaitFor::ranks || !monitored_.empty()) ordered[wait.number] = wait;
      }
    }
    State state{};
    for (const auto& [number, wait] : ordered) {
      if (state.count < state.waits.size()) state.waits.at(state.count++) = wait;
    }
    return state;
  }

  // Waits for ranks come first: they name one call, a wait for collectives only the step around it.
  [[nodiscard]] std::optional<Wait> late_wait(const State& mine, milliseconds now) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(last_begun_, begun_) != begun_) last_begin_ = now;
    }
    std::optional<Wait> late;
    for (std::size_t i = 0; i < mine.count; ++i) {
      const Wait& wait = mine.waits.at(i);
      const milliseconds since = wait.target == WaitFor::ranks ? wait.since : last_begin_;
      if (wait.what.data() == idle || now - since <= timeout_) continue;
      if (!late || wait.target < late->target) late = wait;
    }
    return late;
  }

  void check_waits() {
    const milliseconds now = now_;
    const State mine = state();
    const std::optional<Wait> late = late_wait(mine, now);
    if (!late) {
      late_ = {};
    } else if (late->number != late_.number) {
      late_ = *late;
      asked_at_ = now;
      std::fill(states_.begin(), states_.end(), std::nullopt);
      for (int rank = 0; rank < static_cast<int>(hosts_.size()); ++rank) {
        rank == rank_ ? void(states_[static_cast<std::size_t>(rank)] = mine) : send(rank, late_);
      }
    } else if (now > asked_at_ + answer_timeout && !another_reports(now) &&
               std::none_of(states_.begin(), states_.end(), [&](const auto& state) {
                 return state && state->is_in_collective_of(late_);
               })) {
      abort_launch(timeout_line());
    }
  }

  // Whether a rank that has asked this one is left to report: a lower rank, or one that asked and
  // no longer answers, because it is aborting the launch.
  [[nodiscard]] bool another_reports(milliseconds now) const {
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
      const bool reports = static_cast<int>(rank) < rank_ || !states_[rank];
      if (reports && now <= asked_by_at_[rank] + report_grace) return true;
    }
    return false;
  }

  void receive_messages() {
    int arrived = 0;
    MPI_Status status;
    while (MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &arrived, &status) == MPI_SUCCESS && arrived != 0) {
      const int from = status.MPI_SOURCE;
      Message message{};
      MPI_Recv(&message, sizeof message, MPI_BYTE, from, 0, comm_, MPI_STATUS_IGNORE);
      states_[static_cast<std::size_t>(from)] = message.state;
      if (message.late.number == 0) continue;
      if (!state().is_in_collective_of(message.late)) {
        asked_by_at_[static_cast<std::size_t>(from)] = now_;
      }
      send(from, {});
    }
  }

  // At most one message is in flight to a rank: none queue up for a rank that hangs. MPI errors are
  // ignored: they mean that the other rank has died.
  void send(int rank, const Wait& late) {
    auto& [message, request] = sent_[static_cast<std::size_t>(rank)];
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done == 0) return;
    message = {state(), late};
    MPI_Isend(&message, sizeof message, MPI_BYTE, rank, 0, comm_, &request);
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
    std::vector<int> silent;
    std::vector<int> late;
    std::map<std::string, std::vector<int>> elsewhere;  // by the operation
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
      const std::optional<State>& state = states_[rank];
      const int number = static_cast<int>(rank);
      if (!state) {
        silent.push_back(number);
      } else if (state->count == 0) {
        late.push_back(number);
      } else if (const char* what = state->waits.front().what.data();
                 !state->waits_in(late_) && what != idle) {
        elsewhere[what].push_back(number);
      }
    }
    std::vector<std::string> causes;
    if (!silent.empty()) {
      causes.push_back(with_hosts(silent) + " did not arrive and did not answer");
      if (!late.empty()) causes.push_back(with_hosts(late) + " answered but did not arrive");
    } else if (!late.empty()) {
      causes.push_back(with_hosts(late) + " did not arrive");
    } else {
      for (const auto& [what, ranks] : elsewhere) {
        causes.push_back(
            fmt::format("{} waited in another operation ({})", with_hosts(ranks), what));
      }
    }
    if (causes.empty()) causes.emplace_back("every rank arrived");
    const std::string name = current_case();
    return fmt::format("{}{} did not finish in {:g} s; {}; raise --timeout if it only needs longer",
                       name.empty() ? "" : name + ": ", late_.what.data(), timeout_.count(),
                       fmt::join(causes, ", "));
  }

  // "ranks 0, 1 on node3"
  [[nodiscard]] std::string with_hosts(const std::vector<int>& ranks) const {
    constexpr std::size_t most = 4;
    std::vector<std::string> hosts;
    for (const int rank : ranks) {
      const std::string& host = hosts_[static_cast<std::size_t>(rank)];
      if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
    }
    const std::string more = hosts.size() > most ? " and others" : "";
    hosts.resize(std::min(hosts.size(), most));
    return fmt::format("{} on {}{}", ranks_text(ranks), fmt::join(hosts, ", "), more);
  }

  [[noreturn]] void abort_launch(const std::string& line) {
    write_to(stderr, "paceline: rank {}: {}\n", rank_, line);
    aborting_ = true;
    // In a thread of its own: an abort that hangs must not keep MPI_Abort() from being called.
    std::promise<void> aborted;
    std::thread([&] {
      const std::lock_guard lock(mutex_);
      // In parallel: the collectives of one communicator may wait for those of another.
      std::vector<std::jthread> aborts;
      for (Abortable* abortable : monitored_) aborts.emplace_back([=] { abortable->abort(); });
      aborts.clear();
      aborted.set_value();
    }).detach();
    aborted.get_future().wait_for(abort_timeout);
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::collective));
    std::abort();
  }

  // Advances by longest_tick at most between two polls, on an overloaded machine or after SIGSTOP:
  // waits of a process that could not run do not time out.
  std::atomic<milliseconds> now_ = 0ms;
  std::atomic<bool> aborting_ = false;
  mutable std::mutex mutex_;                            // protects the next three
  std::map<std::thread::id, std::vector<Wait>> waits_;  // those of a thread nest
  std::uint64_t begun_ = 0;                             // waits so far
  std::vector<Abortable*> monitored_;
  // The rest is used by the watchdog's thread alone.
  const std::chrono::duration<double> timeout_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<std::string> hosts_;  // by rank
  std::uint64_t last_begun_ = 0;    // begun_ at the last poll
  milliseconds last_begin_{0};      // the last poll that saw a new wait
  Wait late_{};                     // the wait that timed out; number 0: none has
  milliseconds asked_at_{0};
  std::vector<std::optional<State>> states_;             // by rank, as they were sent
  std::vector<milliseconds> asked_by_at_;                // by rank, when it last asked this one
  std::vector<std::pair<Message, MPI_Request>> sent_{};  // by rank
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Watchdog> make_mpi_watchdog(double timeout_seconds) {
  return std::make_unique<MpiWatchdog>(timeout_seconds);
}

}  // namespace paceline
