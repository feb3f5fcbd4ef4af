#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "core/non_copyable.h"
#include "cuda/kernels/vector.cuh"
#include "cuda/runtime/graph_kernels.h"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int memset_threads = 256;
constexpr std::int64_t words_of_block = 16 * memset_threads;

__global__ void time_kernel(std::uint64_t* to) {
  wait_for_stream();
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  *to = now;
}

__global__ void __launch_bounds__(memset_threads)
    memset_kernel(std::uint32_t* to, std::uint32_t word, std::int64_t words) {
  wait_for_stream();
  const std::int64_t first = blockIdx.x * words_of_block;
  const std::int64_t end = std::min(first + words_of_block, words);
  const uint4 words_of_vector = {word, word, word, word};
  for (std::int64_t i = first + 4 * threadIdx.x; i < end; i += 4 * memset_threads) {
    if (i + 4 <= end) {
      *reinterpret_cast<uint4*>(to + i) = words_of_vector;
    } else {
      for (std::int64_t j = i; j < end; ++j) to[j] = word;
    }
  }
}

std::uint32_t word_of(const cudaMemsetParams& memset) {
  switch (memset.elementSize) {
    case 1: return memset.value * 0x01010101U;
    case 2: return memset.value * 0x00010001U;
    default: return memset.value;
  }
}

std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  return nodes;
}

cudaGraphNode_t add_memset_kernel(cudaGraph_t graph, const cudaMemsetParams& memset, int priority) {
  auto* to = static_cast<std::uint32_t*>(memset.dst);
  std::uint32_t word = word_of(memset);
  auto words = static_cast<std::int64_t>(memset.width * memset.elementSize / sizeof word);
  std::array<void*, 3> arguments = {&to, &word, &words};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(memset_kernel);
  kernel.gridDim = static_cast<unsigned>((words + words_of_block - 1) / words_of_block);
  kernel.blockDim = memset_threads;
  kernel.kernelParams = arguments.data();
  cudaGraphNode_t node = nullptr;
  CUDA_CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  cudaLaunchAttributeValue value{};
  value.priority = priority;
  CUDA_CHECK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &value));
  return node;
}

// Gives `node` the predecessors and successors of `replaced`.
void take_place(cudaGraph_t graph, cudaGraphNode_t replaced, cudaGraphNode_t node) {
  std::size_t count = 0;
  CUDA_CHECK(cudaGraphNodeGetDependencies(replaced, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> others(count);
  std::vector<cudaGraphNode_t> nodes(count, node);
  std::vector<cudaGraphEdgeData> kinds(count);
  CUDA_CHECK(cudaGraphNodeGetDependencies(replaced, others.data(), kinds.data(), &count));
  CUDA_CHECK(cudaGraphAddDependencies(graph, others.data(), nodes.data(), nullptr, count));
  CUDA_CHECK(cudaGraphNodeGetDependentNodes(replaced, nullptr, nullptr, &count));
  others.resize(count);
  nodes.assign(count, node);
  kinds.resize(count);
  CUDA_CHECK(cudaGraphNodeGetDependentNodes(replaced, others.data(), kinds.data(), &count));
  CUDA_CHECK(cudaGraphAddDependencies(graph, nodes.data(), others.data(), nullptr, count));
  CUDA_CHECK(cudaGraphDestroyNode(replaced));
}

// During its lifetime this thread may allocate and free memory while a capture is under way, which
// CUDA otherwise forbids although nothing is enqueued.
class RelaxedCapture : NonCopyable {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // after the exchange: the old mode
};

void free_block(std::uint64_t* block) {
  const RelaxedCapture relaxed;  // events of the previous capture may be freed during this one
  cudaFreeHost(block);
}

}  // namespace

TimeSlot TimeSlots::next() {
  constexpr int slots_of_block = 512;
  if (block_ == nullptr || used_ == slots_of_block) {
    const RelaxedCapture relaxed;
    void* memory = nullptr;
    CUDA_CHECK(
        cudaMallocHost(&memory, slots_of_block * sizeof(std::uint64_t), cudaHostAllocDefault));
    block_ = {static_cast<std::uint64_t*>(memory), free_block};
    used_ = 0;
  }
  return {block_, block_.get() + used_++};
}

void write_time(const TimeSlot& to, cudaStream_t stream) {
  launch({1, 1, stream}, time_kernel, to.get());
}

bool writes_time(cudaGraphNode_t kernel) {
  cudaKernelNodeParams params{};
  if (cudaGraphKernelNodeGetParams(kernel, &params) != cudaSuccess) {
    cudaGetLastError();  // kernels of libraries, from the driver API, have no such parameters
    return false;
  }
  return params.func == reinterpret_cast<void*>(time_kernel);
}

int replace_memsets(cudaGraph_t graph, cudaStream_t stream) {
  int priority = 0;
  CUDA_CHECK(cudaStreamGetPriority(stream, &priority));
  int replaced = 0;
  for (const cudaGraphNode_t node : nodes_of(graph)) {
    cudaGraphNodeType type{};
    CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeMemset) continue;
    cudaMemsetParams memset{};
    CUDA_CHECK(cudaGraphMemsetNodeGetParams(node, &memset));
    const std::size_t bytes = memset.width * memset.elementSize;
    const bool words = memset.height <= 1 && bytes % sizeof(std::uint32_t) == 0 && bytes > 0;
    if (!words || !is_aligned(memset.dst, sizeof(uint4))) continue;
    take_place(graph, node, add_memset_kernel(graph, memset, priority));
    ++replaced;
  }
  return replaced;
}

}  // namespace paceline
