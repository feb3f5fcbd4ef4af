#include "cpu/threads.h"

#include <fmt/format.h>
#include <omp.h>

#include <exception>

#include "core/error.h"

namespace paceline {

HeldThreads::HeldThreads(int count) {
  try {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { released_.wait(); });
  } catch (const std::exception&) {
    released_.count_down();
    throw EnvironmentError(fmt::format(
        "--threads: a rank needs {} threads, of which the system starts {}; use fewer, or raise "
        "the limits of processes (ulimit -u, pids.max of the control group) and of memory (ulimit "
        "-v)",
        count, threads_.size()));
  }
}

int granted_threads(int asked) {
  omp_set_dynamic(0);
  omp_set_num_threads(asked);
  int granted = 1;
#pragma omp parallel
#pragma omp single
  granted = omp_get_num_threads();
  omp_set_num_threads(granted);
  return granted;
}

}  // namespace paceline
