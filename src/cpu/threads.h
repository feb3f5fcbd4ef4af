#pragma once
// Threads of OpenMP and of the BLAS. OpenBLAS's number can be set at run time. Another CBLAS reads
// its own environment variables, and the calls for the BLAS do nothing.

#include <latch>
#include <thread>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

// Idle threads, until destruction. OpenMP ends the process with code 1 when the system refuses it a
// thread: these find out beforehand.
class HeldThreads : NonCopyable {
 public:
  // Throws EnvironmentError if the system refuses that many.
  explicit HeldThreads(int count);
  ~HeldThreads() { released_.count_down(); }

 private:
  std::latch released_{1};
  std::vector<std::jthread> threads_;  // joined before the latch is destroyed
};

// How many of `asked` threads OpenMP grants (OMP_THREAD_LIMIT). OpenBLAS's threads wait forever for
// one that was not granted. The number is fixed from then on, whatever OMP_DYNAMIC says.
[[nodiscard]] int granted_threads(int asked);

void set_blas_threads(int threads);

// During its lifetime, a BLAS call runs on the calling thread only, so that many small products can
// run in parallel. Does nothing unless effective().
class SingleThreadedBlas : NonCopyable {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas() { set_blas_threads(before_); }

  [[nodiscard]] static bool effective();

 private:
  int before_;
};

}  // namespace paceline
