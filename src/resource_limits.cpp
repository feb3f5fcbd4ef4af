// Refuses process limits (ulimit) that are too low for the libraries. With too small an address
// space, OpenBLAS never stops trying to map its buffers while it is loaded, and HDF5 crashes; with
// too few open files, Open MPI ends the process. The limits are therefore examined before the
// libraries initialise themselves.

#include <sys/resource.h>
#include <unistd.h>

#include <string_view>

#include "core/error.h"

namespace paceline {

namespace {

struct Limit {
  __rlimit_resource_t resource;
  rlim_t least;
  std::string_view refusal;
};

constexpr Limit limits[] = {
    {RLIMIT_AS, 1'000'000'000,  // bytes; the libraries alone map 600 MB
     "paceline: the limit of the address space is below 1 GB, which the libraries need: raise it "
     "(ulimit -v)\n"},
    {RLIMIT_NOFILE, 64,  // MPI alone opens 25
     "paceline: the limit of open files is below 64, which the libraries need: raise it "
     "(ulimit -n)\n"},
};

void refuse_small_limits() {
  for (const Limit& limit : limits) {
    rlimit set{};
    if (getrlimit(limit.resource, &set) != 0 || set.rlim_cur >= limit.least) continue;
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, limit.refusal.data(), limit.refusal.size());
    _exit(static_cast<int>(ExitCode::environment));
  }
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)() = refuse_small_limits;

}  // namespace

}  // namespace paceline
