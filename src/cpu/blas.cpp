#include "cpu/blas.h"

// Weak, so that a CBLAS without them still links.
// NOLINTBEGIN(readability-redundant-declaration, modernize-redundant-void-arg)
extern "C" {
void openblas_set_num_threads(int threads) __attribute__((weak));
int openblas_get_num_threads(void) __attribute__((weak));
}
// NOLINTEND(readability-redundant-declaration, modernize-redundant-void-arg)

namespace paceline {

bool SingleThreadedBlas::effective() {
  return openblas_set_num_threads != nullptr && openblas_get_num_threads != nullptr;
}

void set_blas_threads(int threads) {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);
}

SingleThreadedBlas::SingleThreadedBlas() : before_(effective() ? openblas_get_num_threads() : 1) {
  set_blas_threads(1);
}

SingleThreadedBlas::~SingleThreadedBlas() { set_blas_threads(before_); }

}  // namespace paceline
