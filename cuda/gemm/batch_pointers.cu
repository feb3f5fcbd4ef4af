// pointers[operand][i, j] = address of the operand + i stride0 + j stride1, in bytes.

#include <algorithm>
#include <iterator>

#include "cuda/gemm/batch_pointers.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int threads = 256;
constexpr std::int64_t bytes_of_address = 8;
constexpr std::int64_t alignment = 256;  // bytes, of each operand's array
constexpr std::int64_t shared = 63;  // the array that every call writes; those before it are kept

struct Operand {
  std::uint64_t address;
  std::int64_t stride0, stride1;  // bytes
};

struct Operands {
  Operand of[3];  // c, a, b
};

// pointers [3, operand_stride]; blockIdx.y is the operand
__global__ void __launch_bounds__(threads)
    batch_pointers_kernel(std::uint64_t* pointers, std::int64_t operand_stride, Operands operands,
                          int batch0, int batch1) {
  wait_for_stream();
  const int at = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (at >= batch0 * batch1) return;
  const Operand& operand = operands.of[blockIdx.y];
  pointers[blockIdx.y * operand_stride + at] =
      operand.address + at / batch1 * operand.stride0 + at % batch1 * operand.stride1;
}

Operand operand(const Matrix& m) {
  const auto size = static_cast<std::int64_t>(size_of(m.tensor.dtype));
  return {reinterpret_cast<std::uint64_t>(m.tensor.data), m.batch_stride[0] * size,
          m.batch_stride[1] * size};
}

std::int64_t bytes_of_operand(const Matrix& c) {
  const std::int64_t bytes = c.batch[0] * c.batch[1] * bytes_of_address;
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

BatchPointerArrays::BatchPointerArrays(Device& device, const Matrix& c)
    : memory_(device.allocate({(shared + 1) * 3 * bytes_of_operand(c) / 4}, Dtype::f32,
                              MemoryKind::workspace)) {}

BatchPointers BatchPointerArrays::of(const Matrix& c, const Matrix& a, const Matrix& b,
                                     cudaStream_t stream) {
  const Addresses addresses = {c.tensor.data, a.tensor.data, b.tensor.data};
  const auto known = std::find(written_.begin(), written_.end(), addresses);
  const bool writes = known == written_.end();
  const bool is_full = std::ssize(written_) == shared;
  const auto call = writes && (is_full || is_capturing(stream)) ? shared : known - written_.begin();
  if (writes && call < shared) written_.push_back(addresses);
  const std::int64_t bytes = bytes_of_operand(c);
  std::byte* const first = static_cast<std::byte*>(memory_.tensor().data) + call * 3 * bytes;
  if (writes) {
    const std::int64_t batch = c.batch[0] * c.batch[1];
    const auto blocks = static_cast<unsigned>((batch + threads - 1) / threads);
    launch({dim3(blocks, 3), threads, stream}, batch_pointers_kernel,
           reinterpret_cast<std::uint64_t*>(first), bytes / bytes_of_address,
           Operands{{operand(c), operand(a), operand(b)}}, static_cast<int>(c.batch[0]),
           static_cast<int>(c.batch[1]));
  }
  return {.c = first, .a = first + bytes, .b = first + 2 * bytes};
}

}  // namespace paceline
