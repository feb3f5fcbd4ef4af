#pragma once
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/host.h"
#include "core/world.h"

namespace paceline {

// A World of this process only, without MPI. It never waits for other ranks and has no watchdog.
class LoneWorld : public World {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] int local_rank() const override { return 0; }
  [[nodiscard]] int local_size() const override { return 1; }
  [[nodiscard]] int usable_cores() const override {
    return std::max(1, static_cast<int>(allowed_cores().size()));
  }
  [[nodiscard]] std::string host() const override { return node_name(); }
  [[nodiscard]] std::string library() const override { return "none"; }

  void barrier() override {}
  [[nodiscard]] Status agree(Status mine) override { return mine; }
  [[nodiscard]] double max(double mine) override { return mine; }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  [[nodiscard]] std::string broadcast(const std::string& mine, int /*root*/) override {
    return mine;
  }
  void wait_idle() override {}
  [[nodiscard]] std::unique_ptr<World> split(int color, int /*key*/) override {
    return color < 0 ? nullptr : std::make_unique<LoneWorld>();
  }
  [[nodiscard]] Watchdog& watchdog() override { return watchdog_; }
  [[noreturn]] void abort(ExitCode code) override { std::_Exit(static_cast<int>(code)); }

 private:
  NoWatchdog watchdog_;
};

}  // namespace paceline
