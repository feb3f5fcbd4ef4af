#pragma once
// The CPU device's streams: inline and worker.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "core/device.h"

namespace paceline {

// Work runs immediately on the calling thread; its exceptions reach the caller.
class InlineStream final : public Stream {
 public:
  [[nodiscard]] EventPtr record() override;
  void wait(const EventPtr& event) override { event->synchronize(); }
  void follow(Stream& other) override { wait(other.record()); }
  void enqueue(std::function<void()> host_function) override { host_function(); }
  void synchronize() override {}
};

// One thread executes a queue in order. The first enqueue starts it; the destructor waits for the
// queue to drain and joins it. After a host function has thrown, later ones are dropped until
// synchronize() has rethrown the exception; events are still reached, so that no waiter hangs.
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
