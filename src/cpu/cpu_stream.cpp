#include <omp.h>

#include <chrono>
#include <future>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "cpu/cpu_device.h"

namespace paceline {

namespace {

// Stores the time at which it was reached. reach() is called once.
class CpuEvent final : public Event {
 public:
  void reach() { reached_.set_value(host_seconds()); }
  void synchronize() override { seconds_.wait(); }
  [[nodiscard]] double seconds_since(const Event& earlier) const override {
    return seconds() - dynamic_cast<const CpuEvent&>(earlier).seconds();
  }

 private:
  [[nodiscard]] double seconds() const {
    if (seconds_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      throw InternalError("the time of an event was read before it was reached");
    }
    return seconds_.get();
  }

  std::promise<double> reached_;  // host seconds
  const std::shared_future<double> seconds_ = reached_.get_future().share();
};

}  // namespace

EventPtr InlineStream::record() {
  auto event = std::make_shared<CpuEvent>();
  event->reach();
  return event;
}

WorkerStream::~WorkerStream() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

EventPtr WorkerStream::record() {
  auto event = std::make_shared<CpuEvent>();
  push([event] { event->reach(); });
  return event;
}

void WorkerStream::wait(const EventPtr& event) {
  push([event] { event->synchronize(); });
}

void WorkerStream::enqueue(std::function<void()> host_function) {
  push([this, work = std::move(host_function)] {
    {
      const std::lock_guard lock(mutex_);
      if (error_) return;
    }
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
  });
}

void WorkerStream::synchronize() {
  record()->synchronize();
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = std::exchange(error_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

void WorkerStream::push(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void WorkerStream::run() {
  omp_set_num_threads(1);  // the compute stream uses the other cores
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace paceline
