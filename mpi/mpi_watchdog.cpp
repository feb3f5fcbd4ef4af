#include "mpi/mpi_watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/screen.h"
#include "core/world.h"
#include "mpi/check.h"

namespace paceline {

namespace {

using namespace std::chrono_literals;

constexpr auto abort_stagger = 200ms;

constexpr int question_tag = 1;
constexpr int answer_tag = 2;

// The hosts of all ranks, by rank. Collective over `comm`.
std::vector<std::string> gather_hosts(MPI_Comm comm, int size) {
  constexpr std::size_t most = 64;
  std::array<char, most> mine{};
  node_name().copy(mine.data(), most - 1);
  std::vector<std::array<char, most>> all(static_cast<std::size_t>(size));
  MPI_CHECK(MPI_Allgather(mine.data(), most, MPI_BYTE, all.data(), most, MPI_BYTE, comm));
  std::vector<std::string> hosts;
  for (const auto& host : all) hosts.emplace_back(host.data());
  return hosts;
}

}  // namespace

MpiWatchdog::MpiWatchdog(double timeout_seconds) : timeouts_(timeout_seconds) {
  MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
  MPI_CHECK(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
  MPI_CHECK(MPI_Comm_size(comm_, &size_));
  questions_.resize(static_cast<std::size_t>(size_));
  answers_.resize(static_cast<std::size_t>(size_));
  hosts_ = gather_hosts(comm_, size_);
  if (size_ > 1) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

MpiWatchdog::~MpiWatchdog() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  for (std::vector<PendingSend>* sends : {&questions_, &answers_}) {
    for (PendingSend& pending : *sends) {
      if (pending.request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&pending.request);
      MPI_Request_free(&pending.request);
    }
  }
  MPI_Comm_free(&comm_);
}

// Once the launch is being aborted no wait returns: the rank must not go on after an aborted
// collective.
void MpiWatchdog::end_wait() {
  while (aborting_.load(std::memory_order_relaxed)) std::this_thread::sleep_for(1s);
  waits_.end();
}

void MpiWatchdog::monitor(Abortable& abortable) {
  const std::lock_guard lock(mutex_);
  monitored_.push_back(&abortable);
}

void MpiWatchdog::stop_monitoring(Abortable& abortable) {
  const std::lock_guard lock(mutex_);
  std::erase(monitored_, &abortable);
}

void MpiWatchdog::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;  // notified by the stop request alone
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    waits_.clock().tick(Clock::now());
    receive_messages();
    check_waits();
    poll_monitored();
    wake.wait_for(lock, stop, WatchdogTimeouts::poll_interval, [] { return false; });
  }
}

std::vector<WaitRegistry::Wait> MpiWatchdog::checked_waits() const {
  std::vector<WaitRegistry::Wait> waits = waits_.active();
  const std::lock_guard lock(mutex_);
  if (monitored_.empty()) {
    std::erase_if(waits,
                  [](const WaitRegistry::Wait& w) { return w.target == WaitFor::collectives; });
  }
  return waits;
}

bool MpiWatchdog::has_timed_out(const WaitRegistry::Wait& wait, Clock::time_point now) const {
  const bool of_one_call = wait.target == WaitFor::ranks;
  return wait.what != idle && timeouts_.has_timed_out(of_one_call ? wait.since : last_begin_, now);
}

void MpiWatchdog::check_waits() {
  const Clock::time_point now = waits_.clock().now();
  std::vector<WaitRegistry::Wait> late = checked_waits();
  if (const std::uint64_t begun = waits_.begun(); begun != begun_) {
    begun_ = begun;
    last_begin_ = now;
  }
  std::erase_if(late, [&](const WaitRegistry::Wait& wait) { return !has_timed_out(wait, now); });
  // Waits for ranks come first: they name one call, a wait for collectives only the step around it.
  const auto more_precise = [](const WaitRegistry::Wait& a, const WaitRegistry::Wait& b) {
    return std::pair(a.target, a.since) < std::pair(b.target, b.since);
  };
  const auto wait = std::min_element(late.begin(), late.end(), more_precise);
  if (wait == late.end()) {
    late_wait_ = {};
  } else if (wait->id != late_wait_.id) {
    late_wait_ = *wait;
    ask_other_ranks();
  } else if (WatchdogTimeouts::should_abort(asked_at_, lower_rank_asked_at_, now) &&
             std::find(states_.begin(), states_.end(), RankState::in_collective) == states_.end()) {
    abort_launch(timeout_line());
  }
}

void MpiWatchdog::ask_other_ranks() {
  asked_at_ = waits_.clock().now();
  states_.assign(static_cast<std::size_t>(size_), RankState::unknown);
  states_[static_cast<std::size_t>(rank_)] = RankState::in_this_wait;
  instead_.assign(static_cast<std::size_t>(size_), "");
  Message question{late_wait_.id, {}, late_wait_.target, {}};
  late_wait_.what.copy(question.what.data(), WaitRegistry::text_size - 1);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) send(questions_, rank, question_tag, question);
  }
}

void MpiWatchdog::receive_messages() {
  int arrived = 0;
  MPI_Status status;
  while (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &arrived, &status) == MPI_SUCCESS &&
         arrived != 0) {
    const int from = status.MPI_SOURCE;
    Message message{};
    MPI_Recv(&message, sizeof message, MPI_BYTE, from, status.MPI_TAG, comm_, MPI_STATUS_IGNORE);
    if (status.MPI_TAG == question_tag) {
      answer(message);
      if (from < rank_ && message.state != RankState::in_collective)
        lower_rank_asked_at_ = waits_.clock().now();
      send(answers_, from, answer_tag, message);
    } else if (message.wait_id == late_wait_.id) {
      states_[static_cast<std::size_t>(from)] = message.state;
      instead_[static_cast<std::size_t>(from)] = message.what.data();
    }
  }
}

void MpiWatchdog::answer(Message& message) const {
  const std::string operation = message.what.data();
  message.state = RankState::busy;
  message.what.fill('\0');
  bool in_this_wait = false;
  bool in_collective = false;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const WaitRegistry::Wait& wait : checked_waits()) {
    if (wait.what == operation) {
      in_this_wait = true;
      continue;
    }
    message.state = wait.what == idle ? RankState::idle : RankState::in_other_wait;
    in_collective = in_collective || (wait.target == WaitFor::ranks && wait.what != idle);
    if (wait.id > first) continue;
    first = wait.id;
    message.what.fill('\0');
    wait.what.copy(message.what.data(), WaitRegistry::text_size - 1);
  }
  if (!in_this_wait) return;
  message.state = in_collective && message.target == WaitFor::collectives ? RankState::in_collective
                                                                          : RankState::in_this_wait;
}

// MPI errors are ignored: they mean that the other rank has died, and it will not answer.
void MpiWatchdog::send(std::vector<PendingSend>& sends, int to, int tag, const Message& message) {
  PendingSend& pending = sends[static_cast<std::size_t>(to)];
  int sent = 0;
  if (MPI_Test(&pending.request, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || sent == 0) return;
  pending.message = message;
  MPI_Isend(&pending.message, sizeof message, MPI_BYTE, to, tag, comm_, &pending.request);
}

void MpiWatchdog::poll_monitored() {
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

std::string MpiWatchdog::timeout_line() {
  std::vector<int> silent;
  std::vector<int> late;
  std::vector<int> in_other_wait;
  for (int rank = 0; rank < size_; ++rank) {
    const RankState state = states_[static_cast<std::size_t>(rank)];
    if (state == RankState::unknown) silent.push_back(rank);
    if (state == RankState::busy) late.push_back(rank);
    if (state == RankState::in_other_wait) in_other_wait.push_back(rank);
  }
  std::string cause = "every rank arrived";
  if (!in_other_wait.empty()) {
    std::map<std::string, std::vector<int>> ranks_of;  // by what they waited in
    for (const int rank : in_other_wait)
      ranks_of[instead_[static_cast<std::size_t>(rank)]].push_back(rank);
    std::vector<std::string> groups;
    for (const auto& [instead, ranks] : ranks_of) {
      groups.push_back(
          fmt::format("{} waited in another operation ({})", with_hosts(ranks), instead));
    }
    cause = fmt::format("{}", fmt::join(groups, ", "));
  }
  if (!late.empty()) cause = with_hosts(late) + " did not arrive";
  if (!silent.empty()) {
    cause =
        fmt::format("{} did not arrive and did not answer{}", with_hosts(silent),
                    late.empty() ? "" : ", " + with_hosts(late) + " answered but did not arrive");
  }
  const std::string name = current_case();
  return fmt::format("{}{} did not finish in {:g} s; {}; raise --timeout if it only needs longer",
                     name.empty() ? "" : name + ": ", late_wait_.what, timeouts_.timeout_seconds(),
                     cause);
}

std::string MpiWatchdog::with_hosts(const std::vector<int>& ranks) const {
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

void MpiWatchdog::abort_launch(const std::string& line) {
  write_to(stderr, "paceline: rank {}: {}\n", rank_, line);
  aborting_ = true;
  // In a thread of its own: an abort that hangs must not keep MPI_Abort() from being called.
  std::promise<void> aborted;
  std::thread([&] {
    const std::lock_guard lock(mutex_);
    // In parallel: the collectives of one communicator may wait for those of another.
    std::vector<std::thread> aborts;
    for (Abortable* abortable : monitored_)
      aborts.emplace_back([abortable] { abortable->abort(); });
    for (std::thread& thread : aborts) thread.join();
    aborted.set_value();
  }).detach();
  aborted.get_future().wait_for(WatchdogTimeouts::abort_timeout);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::collective));
  std::abort();
}

}  // namespace paceline
