#include "mpi/mpi_world.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "core/error.h"
#include "core/host.h"
#include "core/non_copyable.h"
#include "mpi/check.h"
#include "mpi/communicator_of.h"
#include "mpi/mpi_watchdog.h"

namespace paceline {

namespace {

// The union of the cores that this node's ranks may use: a launcher may bind each rank to its own.
int count_usable_cores(MPI_Comm node) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (const int core : allowed_cores()) CPU_SET(core, &mine);
  cpu_set_t all;
  MPI_CHECK(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, node));
  return std::max(1, CPU_COUNT(&all));
}

// The time limit of MPI_Init_thread() and MPI_Finalize(), which wait for every rank. The watchdog
// cannot guard them: its ranks talk over MPI. Unless it is destroyed in time, it ends this process
// with ExitCode::collective.
class Deadline : NonCopyable {
 public:
  Deadline(std::string_view call, const LaunchTimeout& timeout) {
    const double limit = timeout.seconds + 20;  // on a busy machine ranks need seconds to start
    constexpr double others_wait = 7;           // so that the line is printed
    line = fmt::format(
        "paceline: {} did not finish in {:g} s: a rank has not called it; see whether every rank "
        "runs this command line, or raise --timeout\n",
        call, limit);
    std::signal(SIGALRM, [](int /*signal*/) {
      (void)!write(STDERR_FILENO, line.data(), line.size());
      _exit(static_cast<int>(ExitCode::collective));
    });
    alarm(static_cast<unsigned>(std::ceil(limit + (timeout.reports ? 0 : others_wait))));
  }
  ~Deadline() {
    alarm(0);
    std::signal(SIGALRM, SIG_DFL);
  }

 private:
  static inline std::string line;  // a signal handler must not make it
};

// Set during MPI_Init_thread(), from which Open MPI does not return if it fails. Global, because
// Open MPI's abort is passed nothing of ours.
std::atomic<ReportFailedStart> report_failed_start = nullptr;

// From MPI_Init to MPI_Finalize.
class MpiLibrary : NonCopyable {
 public:
  MpiLibrary(int* argc, char*** argv, const LaunchTimeout& timeout, ReportFailedStart report)
      : timeout_(timeout) {
    int provided = 0;
    {
      const Deadline deadline("MPI_Init_thread()", timeout_);
      report_failed_start = report;
      MPI_CHECK(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
      report_failed_start = nullptr;
    }
    if (provided >= MPI_THREAD_MULTIPLE) return;
    MPI_Finalize();
    throw EnvironmentError("this MPI does not provide MPI_THREAD_MULTIPLE; use a build that does");
  }
  ~MpiLibrary() {
    const Deadline deadline("MPI_Finalize()", timeout_);
    MPI_Finalize();
  }

 private:
  LaunchTimeout timeout_;
};

// Shared by all worlds of a launch, and destroyed with the last of them.
struct Launch {
  Launch(int* argc, char*** argv, const LaunchTimeout& timeout, ReportFailedStart report)
      : library(argc, argv, timeout, report), watchdog(make_mpi_watchdog(timeout.seconds)) {}
  MpiLibrary library;
  std::unique_ptr<Watchdog> watchdog;
};

class MpiWorld final : public World {
 public:
  // Collective over the ranks of `control`. Takes ownership of it.
  MpiWorld(std::shared_ptr<Launch> launch, MPI_Comm control)
      : launch_(std::move(launch)), control_(control) {
    const WatchdogScope watchdog_scope(watchdog(), "finding the ranks of each node",
                                       WaitFor::ranks);
    MPI_CHECK(MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN));
    MPI_CHECK(MPI_Comm_rank(control_, &rank_));
    MPI_CHECK(MPI_Comm_size(control_, &size_));
    MPI_Comm node = MPI_COMM_NULL;
    MPI_CHECK(MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node));
    MPI_CHECK(MPI_Comm_rank(node, &local_rank_));
    MPI_CHECK(MPI_Comm_size(node, &local_size_));
    usable_cores_ = count_usable_cores(node);
    MPI_CHECK(MPI_Comm_free(&node));
  }
  ~MpiWorld() override { MPI_Comm_free(&control_); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int local_rank() const override { return local_rank_; }
  [[nodiscard]] int local_size() const override { return local_size_; }
  [[nodiscard]] int usable_cores() const override { return usable_cores_; }
  [[nodiscard]] std::string host() const override { return node_name(); }
  [[nodiscard]] std::string library() const override { return mpi_library(); }

  void barrier() override {
    const WatchdogScope watchdog_scope(watchdog(), "a barrier", WaitFor::ranks);
    MPI_CHECK(MPI_Barrier(control_));
  }
  [[nodiscard]] Status agree(Status mine) override {
    const WatchdogScope watchdog_scope(watchdog(), "the ranks' agreement", WaitFor::ranks);
    int worst = static_cast<int>(mine);
    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, control_));
    return static_cast<Status>(worst);
  }
  [[nodiscard]] double max(double mine) override {
    const WatchdogScope watchdog_scope(watchdog(), "a maximum over ranks", WaitFor::ranks);
    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, control_));
    return mine;
  }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override {
    const WatchdogScope watchdog_scope(watchdog(), "gathering results", WaitFor::ranks);
    const std::size_t n = rank_ == 0 ? static_cast<std::size_t>(size_) : 0;
    const auto length = static_cast<int>(mine.size());
    std::vector<int> lengths(n);
    MPI_CHECK(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, control_));
    std::vector<int> offsets(n);
    std::size_t total = 0;
    for (std::size_t r = 0; r < n; ++r) {
      offsets[r] = static_cast<int>(total);
      total += static_cast<std::size_t>(lengths[r]);
    }
    if (total > std::numeric_limits<int>::max()) throw InternalError("a gather exceeds 2 GiB");
    std::string all(total, '\0');
    MPI_CHECK(MPI_Gatherv(mine.data(), length, MPI_BYTE, all.data(), lengths.data(), offsets.data(),
                          MPI_BYTE, 0, control_));
    std::vector<std::string> parts;
    for (std::size_t r = 0; r < n; ++r) {
      parts.push_back(
          all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
    }
    return parts;
  }
  [[nodiscard]] std::string broadcast(const std::string& mine, int root) override {
    const WatchdogScope watchdog_scope(watchdog(), "a broadcast of results", WaitFor::ranks);
    int length = static_cast<int>(mine.size());
    MPI_CHECK(MPI_Bcast(&length, 1, MPI_INT, root, control_));
    std::string all = rank_ == root ? mine : std::string(static_cast<std::size_t>(length), '\0');
    MPI_CHECK(MPI_Bcast(all.data(), length, MPI_BYTE, root, control_));
    return all;
  }
  // Not MPI_Barrier(), which polls without a pause. No timeout: it may take as long as a case
  // takes.
  void wait_idle() override {
    using std::chrono::microseconds;
    const WatchdogScope watchdog_scope(watchdog(), idle, WaitFor::ranks);
    MPI_Request all = MPI_REQUEST_NULL;
    MPI_CHECK(MPI_Ibarrier(control_, &all));
    int done = 0;
    MPI_CHECK(MPI_Test(&all, &done, MPI_STATUS_IGNORE));
    for (microseconds pause(50); done == 0; pause = std::min(2 * pause, microseconds(2000))) {
      std::this_thread::sleep_for(pause);
      MPI_CHECK(MPI_Test(&all, &done, MPI_STATUS_IGNORE));
    }
  }
  [[nodiscard]] std::unique_ptr<World> split(int color, int key) override {
    MPI_Comm group = MPI_COMM_NULL;
    {
      const WatchdogScope watchdog_scope(watchdog(), "splitting the world", WaitFor::ranks);
      MPI_CHECK(MPI_Comm_split(control_, color < 0 ? MPI_UNDEFINED : color, key, &group));
    }
    if (group == MPI_COMM_NULL) return nullptr;
    return std::make_unique<MpiWorld>(launch_, group);
  }
  [[nodiscard]] Watchdog& watchdog() override { return *launch_->watchdog; }
  [[noreturn]] void abort(ExitCode code) override {
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    std::abort();
  }
  [[nodiscard]] MPI_Comm control() const { return control_; }

 private:
  std::shared_ptr<Launch> launch_;
  // A communicator of its own, so that control messages never match data messages.
  MPI_Comm control_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  int usable_cores_ = 1;
};

}  // namespace

MPI_Comm communicator_of(World& world) { return dynamic_cast<MpiWorld&>(world).control(); }

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_CHECK(MPI_Get_library_version(text.data(), &length));
  // "Open MPI v4.1.4, package: ..., ident: ...": the part before the comma.
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::unique_ptr<World> make_mpi_world(int* argc, char*** argv, const LaunchTimeout& timeout,
                                      ReportFailedStart report) {
  auto launch = std::make_shared<Launch>(argc, argv, timeout, report);
  MPI_Comm control = MPI_COMM_NULL;
  {
    const WatchdogScope watchdog_scope(*launch->watchdog, "making the world", WaitFor::ranks);
    MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &control));
  }
  return std::make_unique<MpiWorld>(std::move(launch), control);
}

}  // namespace paceline

// In the place of the library's own: MPI_Init_thread() and MPI_Abort() call the program's function
// of this name. Other MPI libraries have none.
extern "C" int ompi_mpi_abort(MPI_Comm comm, int code) {
  using namespace paceline;
  if (const ReportFailedStart report = report_failed_start) {
    std::_Exit(static_cast<int>(report(EnvironmentError(
        "MPI does not start here, for the reason that it printed; see TMPDIR and the variables "
        "OMPI_MCA_* and PMIX_MCA_*, and under Slurm use srun --mpi=pmix"))));
  }
  const auto own = reinterpret_cast<decltype(&ompi_mpi_abort)>(dlsym(RTLD_NEXT, "ompi_mpi_abort"));
  return own(comm, code);
}
