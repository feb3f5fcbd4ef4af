// Ranks that wait for the collectives of a step as an experiment does, for
// tests/faults/test_watchdog.py. The timeout is 1 s.
//   waits computing      a step in which every rank computes for longer than the timeout
//   waits many           a step of many collectives that takes longer than the timeout
//   waits late           rank 0 arrives in an all_reduce of the step later than the timeout
//   waits busy           rank 0 computes; the others wait for it in an all_reduce of the step
//   waits again          rank 1, which had waited for rank 0, stops before the next all_reduce
//   waits released       every rank waits in the step until it is aborted, and says that it goes on
//   waits SCENARIO monitored   the same with a monitored Abortable, as for NCCL

#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "core/communicator.h"
#include "core/world.h"
#include "cpu/cpu_device.h"
#include "mpi/host_communicator.h"
#include "mpi/mpi_world.h"

using namespace paceline;
using namespace std::chrono_literals;

namespace {

class NeverFails final : public Abortable {
 public:
  std::string async_error() override { return ""; }
  void abort() override {
    aborted_.set_value();
    std::this_thread::sleep_for(800ms);  // in which the thread that waits could go on
  }
  void wait_until_aborted() { aborted_.get_future().wait(); }

 private:
  std::promise<void> aborted_;
};

void add_up(Communicator& all, const Tensor& x) {
  all.all_reduce(x, x, ReduceOp::sum);
  all.stream().synchronize();
}

void step(std::string_view what, Communicator& all, const Tensor& x) {
  if (what == "computing") std::this_thread::sleep_for(5s);
  for (int i = 0; what == "many" && i < 20; ++i) {
    std::this_thread::sleep_for(250ms);
    add_up(all, x);
  }
  if (what == "late" && all.rank() == 0) std::this_thread::sleep_for(1.4s);
  if (what == "stopped" && all.rank() == 1) std::raise(SIGSTOP);
  if (what == "again") {
    if (all.rank() == 0) std::this_thread::sleep_for(800ms);
    add_up(all, x);
    std::this_thread::sleep_for(500ms);
    if (all.rank() == 1) std::raise(SIGSTOP);
  }
  if (what == "busy" || what == "stopped")
    std::this_thread::sleep_for(all.rank() == 0 ? 60s : 0.5s);
  add_up(all, x);
}

}  // namespace

int main(int argc, char** argv) {
  const std::unique_ptr<World> world = make_mpi_world(&argc, &argv, {.seconds = 1});
  const std::string what = argc > 1 ? argv[1] : "";
  CpuDevice device(std::size_t{1} << 20U, 1);
  const std::unique_ptr<Communicator> all = make_host_communicator(*world, device);
  const Array x = device.allocate({250}, Dtype::f32, MemoryKind::workspace);
  device.zero(x);
  NeverFails abortable;
  const bool monitored = argc > 2;
  if (monitored) world->watchdog().monitor(abortable);
  {
    const WatchdogScope watchdog_scope(world->watchdog(), "a step");
    if (what == "released") {
      abortable.wait_until_aborted();
    } else {
      step(what, *all, x);
    }
  }
  if (what == "released") std::fputs("went on\n", stderr);
  if (monitored) world->watchdog().stop_monitoring(abortable);
  world->barrier();
  return 0;
}
