#include "harness/lone_world.h"

#include <algorithm>
#include <cstdlib>

#include "core/usable_cores.h"

namespace paceline {

namespace {

class LoneWorld final : public World {
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
    return color < 0 ? nullptr : make_lone_world();
  }
  [[nodiscard]] Watchdog& watchdog() override { return watchdog_; }
  [[noreturn]] void abort(ExitCode code) override { std::_Exit(static_cast<int>(code)); }

 private:
  NoWatchdog watchdog_;
};

}  // namespace

std::unique_ptr<World> make_lone_world() { return std::make_unique<LoneWorld>(); }

}  // namespace paceline
