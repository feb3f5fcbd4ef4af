#pragma once
// The processes of one launch: their number before MPI is initialized, whether all were started
// with the same command line, and what a command that measures receives from the composition root:
// the ranks, their devices and the communicators between them.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/communicator.h"
#include "core/device.h"
#include "core/error.h"
#include "core/host.h"
#include "core/world.h"
#include "harness/option_parser.h"
#include "record/environment.h"

namespace paceline {

// A rank's device and the factory of its communicators: MPI for host memory, NCCL for GPU memory.
struct RankDevice {
  std::unique_ptr<Device> device;
  MakeCommunicator make_communicator;
};

// Where buffers live and which library moves them. Only the first `ranks` ranks have a device and
// communicators; on the other ranks both are empty.
struct Backend : RankDevice {
  BackendKind kind = BackendKind::mpi;
  int ranks = 0;
  std::string limit_reason;  // why `ranks` is not all ranks; empty when it is
};

struct Launch {
  World& world;
  // mpi and nccl for a command that asks for backends; otherwise one, with a device on every rank.
  std::vector<Backend> backends;
  RunInfo info;             // what result files record about this launch
  std::string mpi_library;  // that the program is linked to, whether or not it is started

  [[nodiscard]] Device& device() const { return *backends.front().device; }
};

// Whether this process runs without others: no launcher started it, or started only this one.
[[nodiscard]] bool is_only_process();

// Whether this process reports errors for the launch: rank 0 by the launcher's variables, or a
// process without a launcher.
[[nodiscard]] bool reports_errors();

// For an error that every rank may have, before ranks can agree: rank 0 prints it. The others wait,
// because mpirun ends all processes when one fails, and must not end rank 0 before it has printed
// the line. One that mpirun leaves alive fails alone, and prints its own. Returns the error's code.
[[nodiscard]] ExitCode report_once(const Error& error);

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

// The command line of one rank.
struct CommandLine {
  std::string version;  // of the program
  std::string experiment;
  GivenOptions options;
};

// Throws EnvironmentError if srun started a number of tasks other than `ranks`: without PMIx, Open
// MPI 5 makes each task a launch of its own. Ranks started by mpirun within a Slurm job are not
// srun tasks.
void require_all_tasks(int ranks);

// Collective. Throws UsageError on every rank unless the value is the same on all: "what: a (rank
// 0), b (ranks 1, 2); advice".
void require_same(World& world, std::string_view what, const std::string& mine,
                  std::string_view advice);

// Collective. Throws UsageError on every rank unless all ranks that have a device have one of the
// same name. Empty: this rank has none; rank 0 has one if any has.
void require_same_device(World& world, const std::string& name);

// Collective. Throws UsageError on every rank unless the command lines are the same: it names the
// first option that differs. Only --memory-limit may differ: it describes a rank's device.
void require_same_command_line(World& world, const CommandLine& mine);

// Collective. Throws on every rank unless all have the same command line, MPI library and working
// folder, and are all the tasks that srun started.
void require_same_launch(World& world, const CommandLine& mine);

}  // namespace paceline
