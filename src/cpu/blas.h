#pragma once
// The BLAS's thread count. OpenBLAS's can be set at run time. Another CBLAS reads its own
// environment variables, and these calls do nothing.

#include "core/non_copyable.h"

namespace paceline {

void set_blas_threads(int threads);

// During its lifetime, a BLAS call runs on the calling thread only, so that many small products can
// run in parallel. Does nothing unless effective().
class SingleThreadedBlas : NonCopyable {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();

  [[nodiscard]] static bool effective();

 private:
  int before_;
};

}  // namespace paceline
