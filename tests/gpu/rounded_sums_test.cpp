// Sums and norms with every operation rounded: CPU and GPU give the same bits.

#include "tests/gpu/gpu_oracle.h"

namespace paceline {
namespace {

class RoundedSums : public GpuOracle {
 protected:
  // Runs `work` on the same numbers on both devices.
  using Work = std::function<Array(Device&, Ops&, ToyOps&, const Array& x)>;
  void expect_the_same_bits(const Shape& shape, Dtype dtype, double scale, const Work& work) {
    std::vector<double> numbers = oracle->normal_numbers(static_cast<std::size_t>(shape.numel()));
    for (double& v : numbers) v *= scale;
    const auto result = [&](Device& device) {
      const auto ops = device.make_ops({.precision = oracle->precision()});
      const auto toys = device.make_toy_ops();
      return read(device, *ops,
                  work(device, *ops, *toys, write(device, *ops, shape, dtype, numbers)));
    };
    const std::vector<double> got = result(*gpu);
    const std::vector<double> want = result(cpu);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << i;
      } else {
        EXPECT_EQ(got[i], want[i]) << i;
      }
    }
  }

  CpuDevice cpu{std::size_t{1} << 30U, 1};
};

TEST_P(RoundedSums, SumsHaveTheCpusBits) {
  const Dtype low = oracle->precision().compute;
  for (const Dtype total_dtype : {low, Dtype::f32}) {
    for (const Summation how :
         {Summation::sequential, Summation::pairwise, Summation::blocked, Summation::compensated}) {
      for (const std::int64_t n : {1, 31, 1000, 4099}) {
        SCOPED_TRACE(testing::Message() << name_of(total_dtype) << " " << name_of(how) << " " << n);
        expect_the_same_bits({n}, low, 1, [&](Device& d, Ops&, ToyOps& toys, const Array& x) {
          Array total = d.allocate({1}, total_dtype, MemoryKind::workspace);
          toys.sum(total, x, how);
          return total;
        });
      }
    }
  }
}

// Not float32: there the compiler may fuse a product with the following addition.
TEST_P(RoundedSums, NormsHaveTheCpusBits) {
  const Dtype low = oracle->precision().compute;
  if (low == Dtype::f32) GTEST_SKIP() << "for half types only";
  for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
    for (const double scale : {1e-4, 1.0, 1e3}) {
      for (const std::int64_t n : cols) {
        SCOPED_TRACE(testing::Message() << name_of(kind) << " " << scale << " " << n);
        expect_the_same_bits({129, n}, low, scale,
                             [&](Device& d, Ops&, ToyOps& toys, const Array& x) {
                               Array y = d.allocate(x.shape(), low, MemoryKind::workspace);
                               toys.rounded_norm(y, x, kind, 1e-5);
                               return y;
                             });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, RoundedSums, ::testing::Values("fp32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
