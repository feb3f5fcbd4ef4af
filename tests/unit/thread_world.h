#pragma once
// A World whose ranks are threads of the test.

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/world.h"

namespace paceline {

class ThreadWorld final : public World {
 public:
  // Runs `work` on `ranks` ranks at once.
  static void run(int ranks, const std::function<void(World&)>& work) {
    const auto shared = std::make_shared<Shared>(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadWorld world(shared, rank);
        work(world);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // A rank that leaves early does not block the others.
  ~ThreadWorld() override { shared_->barrier.arrive_and_drop(); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(shared_->texts.size()); }
  [[nodiscard]] int local_rank() const override { return rank_; }
  [[nodiscard]] int local_size() const override { return size(); }
  [[nodiscard]] int usable_cores() const override { return size(); }
  [[nodiscard]] std::string host() const override { return "threads"; }
  [[nodiscard]] std::string library() const override { return "threads 1.0"; }

  void barrier() override { shared_->barrier.arrive_and_wait(); }
  [[nodiscard]] Status agree(Status mine) override {
    return static_cast<Status>(static_cast<int>(max(static_cast<int>(mine))));
  }
  [[nodiscard]] double max(double mine) override {
    shared_->numbers[index()] = mine;
    barrier();
    const double most = *std::max_element(shared_->numbers.begin(), shared_->numbers.end());
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
  // The group's first rank creates the state that its members share.
  [[nodiscard]] std::unique_ptr<World> split(int color, int key) override {
    shared_->places[index()] = {color, key};
    barrier();
    std::vector<std::pair<int, std::size_t>> members;  // key, rank in this World
    for (std::size_t r = 0; r < shared_->places.size(); ++r) {
      if (shared_->places[r].color == color) members.emplace_back(shared_->places[r].key, r);
    }
    std::sort(members.begin(), members.end());
    const std::size_t first = members.front().second;
    if (first == index()) {
      shared_->groups[first] = std::make_shared<Shared>(static_cast<int>(members.size()));
    }
    barrier();
    const std::shared_ptr<Shared> group = shared_->groups[first];
    barrier();
    if (color < 0) return nullptr;
    const auto mine = std::find(members.begin(), members.end(), std::pair(key, index()));
    return std::unique_ptr<World>(new ThreadWorld(group, static_cast<int>(mine - members.begin())));
  }
  [[nodiscard]] Watchdog& watchdog() override { return watchdog_; }
  [[noreturn]] void abort(ExitCode code) override { std::_Exit(static_cast<int>(code)); }

 private:
  struct Place {
    int color = 0;
    int key = 0;
  };
  // The vectors have one element per rank.
  struct Shared {
    explicit Shared(int ranks)
        : barrier(ranks),
          numbers(static_cast<std::size_t>(ranks)),
          texts(static_cast<std::size_t>(ranks)),
          places(static_cast<std::size_t>(ranks)),
          groups(static_cast<std::size_t>(ranks)) {}
    std::barrier<> barrier;
    std::vector<double> numbers;
    std::vector<std::string> texts;
    std::vector<Place> places;
    std::vector<std::shared_ptr<Shared>> groups;  // at the first rank of each
  };

  ThreadWorld(std::shared_ptr<Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}

  [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(rank_); }

  std::vector<std::string> share(const std::string& mine) {
    shared_->texts[index()] = mine;
    barrier();
    std::vector<std::string> all = shared_->texts;
    barrier();
    return all;
  }

  std::shared_ptr<Shared> shared_;
  int rank_;
  NoWatchdog watchdog_;
};

}  // namespace paceline
