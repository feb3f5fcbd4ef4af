#pragma once
// A World whose ranks are threads of the test.

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/world.h"

namespace paceline {

class ThreadWorld final : public World {
 public:
  // Runs `work` on `ranks` ranks at once.
  static void run(int ranks, const std::function<void(World&)>& work) {
    Shared shared(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadWorld world(shared, rank);
        work(world);
        shared.barrier.arrive_and_drop();  // a rank that left early keeps none of the others
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(shared_.texts.size()); }
  [[nodiscard]] int local_rank() const override { return rank_; }
  [[nodiscard]] int local_size() const override { return size(); }
  [[nodiscard]] int usable_cores() const override { return size(); }
  [[nodiscard]] std::string host() const override { return "threads"; }
  [[nodiscard]] std::string library() const override { return "threads 1.0"; }

  void barrier() override { shared_.barrier.arrive_and_wait(); }
  [[nodiscard]] Status agree(Status mine) override {
    return static_cast<Status>(static_cast<int>(max(static_cast<int>(mine))));
  }
  [[nodiscard]] double max(double mine) override {
    shared_.numbers[static_cast<std::size_t>(rank_)] = mine;
    barrier();
    const double most = *std::max_element(shared_.numbers.begin(), shared_.numbers.end());
    barrier();
    return most;
  }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override {
    const std::vector<std::string> all = share(mine);
    return rank_ == 0 ? all : std::vector<std::string>{};
  }
  [[nodiscard]] std::string broadcast(const std::string& mine, int root) override {
    return share(mine)[static_cast<std::size_t>(root)];
  }
  void wait_idle() override { barrier(); }
  [[nodiscard]] std::unique_ptr<World> first_ranks(int n) override {
    if (n != size()) throw InternalError("all ranks or none, in tests");
    return std::unique_ptr<World>(new ThreadWorld(shared_, rank_));
  }
  [[nodiscard]] Watch& watch() override { return watch_; }
  [[noreturn]] void abort(ExitCode code) override { std::_Exit(static_cast<int>(code)); }

 private:
  class NoWatch final : public Watch {
   public:
    void begin(std::string_view /*what*/) override {}
    void end() override {}
    void at(std::string_view /*work*/) override {}
    void guard(Guarded& /*guarded*/) override {}
    void release(Guarded& /*guarded*/) override {}
  };

  struct Shared {
    explicit Shared(int ranks)
        : barrier(ranks),
          numbers(static_cast<std::size_t>(ranks)),
          texts(static_cast<std::size_t>(ranks)) {}
    std::barrier<> barrier;
    std::vector<double> numbers;
    std::vector<std::string> texts;
  };

  ThreadWorld(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  std::vector<std::string> share(const std::string& mine) {
    shared_.texts[static_cast<std::size_t>(rank_)] = mine;
    barrier();
    std::vector<std::string> all = shared_.texts;
    barrier();
    return all;
  }

  Shared& shared_;
  int rank_;
  NoWatch watch_;
};

}  // namespace paceline
