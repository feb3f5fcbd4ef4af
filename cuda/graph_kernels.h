#pragma once
// Kernels that stand in a captured graph where the runtime would put nodes of other kinds. A graph
// of kernels alone is launched in some 5 us, whatever its size; every memset or event node in it
// costs the host 1.6 to 2 us more, and the device 2.5 us.

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

namespace paceline {

// Nanoseconds of the GPU's clock, which each launch of the graph writes: pinned memory.
using TimeSlot = std::shared_ptr<std::uint64_t>;

// Slots from blocks of pinned memory, which last as long as any of their slots.
class TimeSlots {
 public:
  [[nodiscard]] TimeSlot next();

 private:
  std::shared_ptr<std::uint64_t> block_;
  int used_ = 0;
};

// When all work before it in the stream has ended, writes the time there.
void write_time(const TimeSlot& to, cudaStream_t stream);
[[nodiscard]] bool writes_time(cudaGraphNode_t kernel);

// A kernel in place of every memset node of whole, aligned words: the number of those. They start
// with the priority of the stream, from which the graph was captured.
int replace_memsets(cudaGraph_t graph, cudaStream_t stream);

}  // namespace paceline
