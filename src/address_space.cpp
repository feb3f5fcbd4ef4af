// A limit of the address space (ulimit -v) that the libraries do not fit. With one, OpenBLAS tries
// for ever to map its buffers while it is loaded, and HDF5 crashes. The limit is therefore examined
// before the libraries initialise themselves.

#include <sys/resource.h>
#include <unistd.h>

#include <string_view>

#include "core/error.h"

namespace paceline {

namespace {

void refuse_small_address_space() {
  constexpr rlim_t least = 1'000'000'000;  // bytes; the libraries alone map 600 MB
  constexpr std::string_view refusal =
      "paceline: the limit of the address space is below 1 GB, which the libraries need: raise it "
      "(ulimit -v)\n";
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= least) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, refusal.data(), refusal.size());
  _exit(static_cast<int>(ExitCode::environment));
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)() = refuse_small_address_space;

}  // namespace

}  // namespace paceline
