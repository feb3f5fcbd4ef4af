#pragma once
// The CPU device's streams: the caller's own, and workers.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/device.h"

namespace paceline {

// The caller's own thread: work runs at once, and what it throws reaches the caller.
class InlineStream final : public Stream {
 public:
  [[nodiscard]] EventPtr record() override;
  void wait(const EventPtr& event) override { event->synchronize(); }
  void follow(Stream& other) override { wait(other.record()); }
  void enqueue(std::function<void()> host_function) override { host_function(); }
  void synchronize() override {}
};

// One thread that works through a queue. It starts with the first piece of work and ends, after
// the last, in the destructor. After a host function threw, later ones are dropped (events are
// still reached, so that nobody waits for ever) until synchronize() has rethrown.
class WorkerStream final : public Stream {
 public:
  WorkerStream() = default;
  ~WorkerStream() override;

  [[nodiscard]] EventPtr record() override;
  void wait(const EventPtr& event) override;
  void follow(Stream& other) override { wait(other.record()); }
  void enqueue(std::function<void()> host_function) override;
  void synchronize() override;

 private:
  void push(std::function<void()> work);
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::exception_ptr error_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace paceline
