#pragma once
// The BLAS's thread count. OpenBLAS can be told at run time; another CBLAS follows its own
// environment variables, and these calls do nothing.

#include "core/non_copyable.h"

namespace paceline {

void set_blas_threads(int threads);

// While one lives, BLAS calls run on the thread that makes them, so that many small products can
// run side by side. Only where effective() says so.
class SingleThreadedBlas : NonCopyable {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();

  [[nodiscard]] static bool effective();

 private:
  int before_;
};

}  // namespace paceline
