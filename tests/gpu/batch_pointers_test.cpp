// The address arrays of products with two batch dimensions.

#include "cuda/gemm/batch_pointers.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cuda/cuda_backend.h"
#include "cuda/runtime/cuda_device.h"
#include "cuda/runtime/cuda_stream.h"

namespace paceline {
namespace {

class BatchPointerTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t B = 3;
  static constexpr std::int64_t H = 5;
  static constexpr std::int64_t T = 8;

  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    gpu = make_cuda_device(0, std::nullopt, 1);
    memory = gpu->allocate({operands, B, H, T, T}, Dtype::f32, MemoryKind::workspace);
    arrays = std::make_unique<BatchPointerArrays>(*gpu, operand(0));
  }

  [[nodiscard]] Matrix operand(std::int64_t i) const {
    Matrix m(memory.tensor().slice(i * B * H * T * T, {T, T}));
    m.batch = {B, H};
    m.batch_stride = {H * T * T, T * T};
    return m;
  }
  BatchPointers of(std::int64_t c, std::int64_t a, std::int64_t b) {
    const auto& stream = dynamic_cast<CudaStream&>(gpu->compute_stream());
    return arrays->of(operand(c), operand(a), operand(b), stream.get());
  }
  void expect_addresses(const void* array, std::int64_t i) {
    std::vector<std::uint64_t> found(B * H);
    gpu->to_host(found.data(), {const_cast<void*>(array), {2 * B * H}, Dtype::f32});
    const auto first = reinterpret_cast<std::uint64_t>(operand(i).tensor.data);
    for (std::size_t j = 0; j < found.size(); ++j) EXPECT_EQ(found[j], first + 4 * T * T * j);
  }
  void expect_addresses(const BatchPointers& of, std::int64_t c, std::int64_t a, std::int64_t b) {
    expect_addresses(of.c, c);
    expect_addresses(of.a, a);
    expect_addresses(of.b, b);
  }
  std::unique_ptr<Graph> captured(std::int64_t c, std::int64_t a, std::int64_t b) {
    return gpu->capture(gpu->compute_stream(), [&] { last = of(c, a, b); });
  }

  static constexpr std::int64_t operands = 100;
  std::unique_ptr<Device> gpu;
  Array memory;
  std::unique_ptr<BatchPointerArrays> arrays;
  BatchPointers last;
};

TEST_F(BatchPointerTest, KnownAddressesAreNotWrittenAgain) {
  expect_addresses(of(0, 1, 2), 0, 1, 2);
  const BatchPointers first = of(3, 1, 2);
  expect_addresses(first, 3, 1, 2);
  const std::unique_ptr<Graph> graph = captured(3, 1, 2);
  EXPECT_EQ(graph->nodes().all, 0);
  EXPECT_EQ(last.c, first.c);
  expect_addresses(last, 3, 1, 2);
}

// What a capture enqueues has not been written yet.
TEST_F(BatchPointerTest, NewAddressesDuringACaptureAreWrittenByEveryReplay) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(captured(0, 1, 2)->nodes().all, 1);
  const std::unique_ptr<Graph> one = captured(0, 1, 2);
  const std::unique_ptr<Graph> other = captured(2, 3, 4);
  other->launch();
  one->launch();
  expect_addresses(last, 0, 1, 2);
  other->launch();
  expect_addresses(last, 2, 3, 4);
}

TEST_F(BatchPointerTest, MoreCallsThanHaveMemory) {
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t c = 2; c < operands; ++c) expect_addresses(of(c, 0, 1), c, 0, 1);
  }
}

}  // namespace
}  // namespace paceline
