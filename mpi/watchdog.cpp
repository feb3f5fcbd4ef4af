#include "mpi/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <utility>

#include "core/screen.h"
#include "mpi/check.h"

namespace paceline {

namespace {

using namespace std::chrono_literals;

constexpr auto lower_rank_aborts_within = 200ms;

constexpr int question_tag = 1;
constexpr int answer_tag = 2;

}  // namespace

thread_local Waits::Slot* Waits::innermost = nullptr;

void Waits::begin(std::string_view what, WaitFor whom) {
  auto* const slot = std::find_if(slots_.begin(), slots_.end(), [](Slot& s) {
    return !s.taken.exchange(true, std::memory_order_acquire);
  });
  if (slot == slots_.end()) throw InternalError("too many threads wait for other ranks");
  // Who reads any of what follows then reads the number 0, or a later one.
  std::atomic_thread_fence(std::memory_order_release);
  const std::size_t length = std::min(what.size(), text_size - 1);
  for (std::size_t i = 0; i < length; ++i) {
    slot->what.at(i).store(what[i], std::memory_order_relaxed);
  }
  slot->what.at(length).store('\0', std::memory_order_relaxed);
  slot->since.store(time_.now(), std::memory_order_relaxed);
  slot->whom.store(whom, std::memory_order_relaxed);
  slot->number.store(1 + begun_.fetch_add(1, std::memory_order_relaxed), std::memory_order_release);
  slot->outer = innermost;
  innermost = slot;
}

void Waits::end() {
  Slot* const slot = innermost;
  innermost = slot->outer;
  slot->number.store(0, std::memory_order_relaxed);
  slot->taken.store(false, std::memory_order_release);
}

std::vector<Waits::Wait> Waits::standing() const {
  std::vector<Wait> waits;
  for (const Slot& slot : slots_) {
    Wait wait{slot.number.load(std::memory_order_acquire), {}, {}, {}};
    if (wait.number == 0) continue;
    wait.since = slot.since.load(std::memory_order_relaxed);
    wait.whom = slot.whom.load(std::memory_order_relaxed);
    for (const std::atomic<char>& letter : slot.what) {
      const char c = letter.load(std::memory_order_relaxed);
      if (c == '\0') break;
      wait.what += c;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.number.load(std::memory_order_relaxed) == wait.number) waits.push_back(wait);
  }
  return waits;
}

Watchdog::Watchdog(double timeout_seconds) : patience_(timeout_seconds) {
  MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
  MPI_CHECK(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
  MPI_CHECK(MPI_Comm_size(comm_, &size_));
  questions_.resize(static_cast<std::size_t>(size_));
  answers_.resize(static_cast<std::size_t>(size_));
  if (size_ > 1) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Watchdog::~Watchdog() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  for (std::vector<Mail>* mails : {&questions_, &answers_}) {
    for (Mail& mail : *mails) {
      if (mail.request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&mail.request);
      MPI_Request_free(&mail.request);
    }
  }
  MPI_Comm_free(&comm_);
}

// A wait that the launch's end has cut short must look like one that goes on.
void Watchdog::end() {
  while (launch_ends_.load(std::memory_order_relaxed)) std::this_thread::sleep_for(1s);
  waits_.end();
}

void Watchdog::at(std::string_view work) {
  const std::lock_guard lock(mutex_);
  work_ = work;
}

void Watchdog::guard(Guarded& guarded) {
  const std::lock_guard lock(mutex_);
  guarded_.push_back(&guarded);
}

void Watchdog::release(Guarded& guarded) {
  const std::lock_guard lock(mutex_);
  std::erase(guarded_, &guarded);
}

void Watchdog::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;  // by the stop alone
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    waits_.time().look(Clock::now());
    receive();
    look();
    look_after_guarded();
    wake.wait_for(lock, stop, Patience::look_every, [] { return false; });
  }
}

std::vector<Waits::Wait> Watchdog::counted() const {
  std::vector<Waits::Wait> waits = waits_.standing();
  const std::lock_guard lock(mutex_);
  if (guarded_.empty()) {
    std::erase_if(waits, [](const Waits::Wait& w) { return w.whom == WaitFor::collectives; });
  }
  return waits;
}

bool Watchdog::is_late(const Waits::Wait& wait, Clock::time_point now) const {
  const bool of_one_call = wait.whom == WaitFor::ranks;
  return wait.what != idle && patience_.is_late(of_one_call ? wait.since : last_begun_at_, now);
}

void Watchdog::look() {
  const Clock::time_point now = waits_.time().now();
  std::vector<Waits::Wait> late = counted();
  if (const std::uint64_t begun = waits_.begun(); begun != begun_) {
    begun_ = begun;
    last_begun_at_ = now;
  }
  std::erase_if(late, [&](const Waits::Wait& wait) { return !is_late(wait, now); });
  // A wait for ranks names one call, which a wait for collectives that holds it does not.
  const auto tells_more = [](const Waits::Wait& a, const Waits::Wait& b) {
    return std::pair(a.whom, a.since) < std::pair(b.whom, b.since);
  };
  const auto wait = std::min_element(late.begin(), late.end(), tells_more);
  if (wait == late.end()) {
    asked_ = {};
  } else if (wait->number != asked_.number) {
    asked_ = *wait;
    ask();
  } else if (Patience::should_abort(asked_at_, lower_rank_asked_at_, now) &&
             std::find(places_.begin(), places_.end(), Place::inside) == places_.end()) {
    end_launch(line_of_timeout());
  }
}

void Watchdog::ask() {
  asked_at_ = waits_.time().now();
  places_.assign(static_cast<std::size_t>(size_), Place::unknown);
  places_[static_cast<std::size_t>(rank_)] = Place::there;
  Message question{asked_.number, {}, asked_.whom, {}};
  std::copy(asked_.what.begin(), asked_.what.end(), question.what.begin());
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) send(questions_, rank, question_tag, question);
  }
}

void Watchdog::receive() {
  int arrived = 0;
  MPI_Status status;
  while (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &arrived, &status) == MPI_SUCCESS &&
         arrived != 0) {
    const int from = status.MPI_SOURCE;
    Message message{};
    MPI_Recv(&message, sizeof message, MPI_BYTE, from, status.MPI_TAG, comm_, MPI_STATUS_IGNORE);
    if (status.MPI_TAG == question_tag) {
      message.place = place_in(message.what.data(), message.whom);
      if (from < rank_ && message.place != Place::inside)
        lower_rank_asked_at_ = waits_.time().now();
      send(answers_, from, answer_tag, message);
    } else if (message.number == asked_.number) {
      places_[static_cast<std::size_t>(from)] = message.place;
    }
  }
}

Watchdog::Place Watchdog::place_in(std::string_view operation, WaitFor whom) const {
  Place elsewhere = Place::busy;
  bool is_there = false;
  bool in_call = false;
  for (const Waits::Wait& wait : counted()) {
    if (wait.what == operation) {
      is_there = true;
      continue;
    }
    elsewhere = wait.what == idle ? Place::idle : Place::waiting;
    in_call = in_call || (wait.whom == WaitFor::ranks && wait.what != idle);
  }
  if (!is_there) return elsewhere;
  return in_call && whom == WaitFor::collectives ? Place::inside : Place::there;
}

// An error of MPI here means a rank that is gone: it will not answer.
void Watchdog::send(std::vector<Mail>& mails, int to, int tag, const Message& message) {
  Mail& mail = mails[static_cast<std::size_t>(to)];
  int sent = 0;
  if (MPI_Test(&mail.request, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || sent == 0) return;
  mail.message = message;
  MPI_Isend(&mail.message, sizeof message, MPI_BYTE, to, tag, comm_, &mail.request);
}

void Watchdog::look_after_guarded() {
  std::string failure;
  {
    const std::lock_guard lock(mutex_);
    for (Guarded* guarded : guarded_) {
      if (failure.empty()) failure = guarded->failure();
    }
  }
  if (failure.empty()) return;
  // One line, if all ranks see it.
  std::this_thread::sleep_for(std::min(rank_, 10) * lower_rank_aborts_within);
  end_launch(failure);
}

std::string Watchdog::line_of_timeout() {
  std::vector<int> missing;
  std::vector<int> silent;
  std::vector<int> waiting;
  for (int rank = 0; rank < size_; ++rank) {
    const Place place = places_[static_cast<std::size_t>(rank)];
    if (place == Place::unknown) silent.push_back(rank);
    if (place == Place::unknown || place == Place::busy) missing.push_back(rank);
    if (place == Place::waiting) waiting.push_back(rank);
  }
  std::string who = "every rank arrived";
  if (!waiting.empty()) who = ranks_text(waiting) + " waited for others elsewhere";
  if (!missing.empty()) who = ranks_text(missing) + " did not arrive";
  if (!silent.empty()) {
    who +=
        silent == missing ? " and did not answer" : " (no answer from " + ranks_text(silent) + ")";
  }
  const std::lock_guard lock(mutex_);
  return fmt::format("{}{} did not finish in {:g} s; {}; raise --timeout if it only needs longer",
                     work_.empty() ? "" : work_ + ": ", asked_.what, patience_.timeout_seconds(),
                     who);
}

void Watchdog::end_launch(const std::string& line) {
  write_to(stderr, "paceline: rank {}: {}\n", rank_, line);
  launch_ends_ = true;
  // In a thread of its own: an abort that hangs must not keep the launch from ending.
  std::promise<void> aborted;
  std::thread([&] {
    const std::lock_guard lock(mutex_);
    // Side by side: what one has enqueued may wait for what another has.
    std::vector<std::thread> aborts;
    for (Guarded* guarded : guarded_) aborts.emplace_back([guarded] { guarded->abort(); });
    for (std::thread& one : aborts) one.join();
    aborted.set_value();
  }).detach();
  aborted.get_future().wait_for(Patience::abort_timeout);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::collective));
  std::abort();
}

}  // namespace paceline
