#pragma once
// Occupies multiprocessors, as the kernels of collectives do while products run beside them.

#include <cstdint>

#include "core/non_copyable.h"
#include "cuda/cuda_stream.h"

namespace paceline {

class OccupiedMultiprocessors : NonCopyable {
 public:
  // From the return on, `count` blocks run that leave no shared memory to other blocks of their
  // multiprocessors. They end with this object, or by themselves after some seconds. Meanwhile
  // nothing may wait for the whole device, as cudaFree() and the loading of a kernel do.
  explicit OccupiedMultiprocessors(int count);
  ~OccupiedMultiprocessors();

 private:
  int count_;
  volatile std::uint32_t* flags_ = nullptr;  // pinned: [0] release, [1 + block] running
  CudaStream stream_;
};

}  // namespace paceline
