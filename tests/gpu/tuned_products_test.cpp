// Tuned products: the fastest algorithm is timed, correct and remembered.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/product_tuning.h"
#include "cuda/cuda_backend.h"
#include "tests/oracle/op_cases.h"
#include "tests/unit/environment_variable.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

class TunedProducts : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    gpu = make_cuda_device(0, std::nullopt, 1);
    eager = gpu->make_ops({.precision = precision});
  }

  [[nodiscard]] std::unique_ptr<Ops> compiled() const {
    return gpu->make_ops({.precision = precision, .execution = Execution::compiled});
  }
  [[nodiscard]] Array random(const Shape& shape, Dtype dtype) {
    std::vector<float> drawn(static_cast<std::size_t>(shape.numel()));
    Random(17, stream++).fill_normal(drawn);
    return write(*gpu, *eager, shape, dtype, {drawn.begin(), drawn.end()});
  }
  [[nodiscard]] std::vector<double> values(const Tensor& x) { return read(*gpu, *eager, x); }
  // c [m, n], the product of fixed random numbers.
  [[nodiscard]] std::vector<double> some_product(Ops& ops) {
    constexpr std::int64_t m = 384;
    constexpr std::int64_t n = 640;
    constexpr std::int64_t k = 512;
    stream = 100;
    const Array a = random({m, k}, precision.compute);
    const Array b = random({n, k}, precision.compute);
    const Array c = gpu->allocate({m, n}, precision.compute, MemoryKind::workspace);
    ops.matmul(Matrix(c), Matrix(a), Matrix(b).transpose());
    return values(c);
  }
  static std::vector<TunedProduct> products(Ops& ops) { return ops.product_tuning()->products(); }

  Precision precision = precision_named(GetParam());
  TempFolder temp;
  EnvironmentVariable cache{"PACELINE_CACHE", temp.path().c_str()};
  std::unique_ptr<Device> gpu;
  std::unique_ptr<Ops> eager;
  std::uint64_t stream = 0;
};

TEST_P(TunedProducts, EqualTheOracles) {
  Oracle oracle(*gpu, precision, Execution::compiled);
  for (const std::int64_t m : {3, 129}) {
    for (const std::int64_t k : {5, 256}) {
      for (const std::int64_t n : {64, 127}) check_matmul(oracle, m, k, n);
    }
  }
  check_matmul(oracle, 512, 384, 1024);
  for (const std::int64_t d : {2, 16, 64, 80}) check_head_products(oracle, d);
}

TEST_P(TunedProducts, AreTimedOnceAndThenTakenFromTheFile) {
  const std::unique_ptr<Ops> first = compiled();
  const std::vector<double> result = some_product(*first);
  const double seconds = first->product_tuning()->seconds();
  EXPECT_GT(seconds, 0);
  ASSERT_EQ(products(*first).size(), 1U);
  const TunedProduct chosen = products(*first).front();
  EXPECT_EQ(chosen.source, "timed");
  EXPECT_GT(chosen.candidates, 0);
  constexpr double tolerance = 10e-6;  // for a first proposal that has more graph nodes
  EXPECT_LE(chosen.seconds, chosen.first_seconds + tolerance);
  EXPECT_EQ(some_product(*first), result);
  EXPECT_EQ(first->product_tuning()->seconds(), seconds);

  const std::unique_ptr<Ops> second = compiled();
  EXPECT_EQ(some_product(*second), result);
  EXPECT_EQ(second->product_tuning()->seconds(), 0);
  ASSERT_EQ(products(*second).size(), 1U);
  EXPECT_EQ(products(*second).front().source, "file");
  EXPECT_EQ(products(*second).front().algorithm, chosen.algorithm);
  EXPECT_EQ(products(*second).front().seconds, chosen.seconds);
}

TEST_P(TunedProducts, AnotherRanksAreTaken) {
  const std::unique_ptr<Ops> rank0 = compiled();
  const std::vector<double> result = some_product(*rank0);
  const TempFolder elsewhere;
  const EnvironmentVariable other("PACELINE_CACHE", elsewhere.path().c_str());
  const std::unique_ptr<Ops> rank1 = compiled();
  const Array x = random({128, 128}, precision.compute);
  const Array y = gpu->allocate({128, 128}, precision.compute, MemoryKind::workspace);
  rank1->matmul(Matrix(y), Matrix(x), Matrix(x));  // a product that rank 0 does not have
  const std::vector<double> own = values(y);
  (void)some_product(*rank1);
  (void)rank1->product_tuning()->take(rank0->product_tuning()->choices());
  EXPECT_FALSE(rank1->product_tuning()->take(rank0->product_tuning()->choices()));
  EXPECT_EQ(some_product(*rank1), result);
  rank1->matmul(Matrix(y), Matrix(x), Matrix(x));
  EXPECT_EQ(values(y), own);
  const std::string algorithm = products(*rank0).front().algorithm;
  const std::vector<TunedProduct> all = products(*rank1);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const TunedProduct& p) {
    return p.m == 384 && p.algorithm == algorithm;
  }));
  const std::string before = rank1->product_tuning()->choices();
  EXPECT_FALSE(rank1->product_tuning()->take("of something else"));
  EXPECT_EQ(rank1->product_tuning()->choices(), before);
}

TEST_P(TunedProducts, AGraphReplaysThoseOfTheRehearsal) {
  constexpr std::int64_t B = 4;
  constexpr std::int64_t T = 96;
  constexpr std::int64_t H = 12;
  constexpr std::int64_t d = 64;
  const std::unique_ptr<Ops> ops = compiled();
  const Array qkv = random({B, T, 3, H, d}, precision.compute);
  const Array next = random({B, T, 3, H, d}, precision.compute);
  const Array scores = gpu->allocate({B, H, T, T}, precision.compute, MemoryKind::workspace);
  const auto product = [&](Ops& by) {
    const QkvHeads heads(qkv);
    Matrix c(scores);
    c.rows = T;
    c.batch = {B, H};
    c.batch_stride = {H * T * T, T * T};
    by.matmul(c, Matrix(heads.q), Matrix(heads.k).transpose());
  };
  const auto capture = [&] { return gpu->capture(gpu->compute_stream(), [&] { product(*ops); }); };
  EXPECT_THROW((void)capture(), InternalError);
  product(*ops);
  const std::unique_ptr<Graph> graph = capture();
  eager->cast(qkv, next);
  product(*ops);
  const std::vector<double> want = values(scores);
  for (int i = 0; i < 2; ++i) {
    eager->fill(scores, 0);
    graph->launch();
    EXPECT_EQ(values(scores), want);
  }
}

TEST_P(TunedProducts, OfADeterministicRunAndOfEagerAreNot) {
  const std::unique_ptr<Ops> same_bits = gpu->make_ops(
      {.precision = precision, .deterministic = true, .execution = Execution::compiled});
  EXPECT_EQ(same_bits->product_tuning(), nullptr);
  EXPECT_EQ(eager->product_tuning(), nullptr);
  EXPECT_EQ(some_product(*same_bits), some_product(*eager));
}

INSTANTIATE_TEST_SUITE_P(Precisions, TunedProducts,
                         ::testing::Values("fp32", "tf32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
