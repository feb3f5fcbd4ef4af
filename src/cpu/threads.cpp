#include "cpu/threads.h"

#include <fmt/format.h>
#include <omp.h>

#include <exception>

#include "core/error.h"

// Weak, so that a CBLAS without them still links.
// NOLINTBEGIN(readability-redundant-declaration, modernize-redundant-void-arg)
extern "C" {
void openblas_set_num_threads(int threads) __attribute__((weak));
int openblas_get_num_threads(void) __attribute__((weak));
}
// NOLINTEND(readability-redundant-declaration, modernize-redundant-void-arg)

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
  return granted;
}

bool SingleThreadedBlas::effective() {
  return openblas_set_num_threads != nullptr && openblas_get_num_threads != nullptr;
}

void set_blas_threads(int threads) {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);
}

SingleThreadedBlas::SingleThreadedBlas() : before_(effective() ? openblas_get_num_threads() : 1) {
  set_blas_threads(1);
}

}  // namespace paceline
