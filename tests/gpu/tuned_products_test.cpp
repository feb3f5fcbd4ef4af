// Tuned products: the fastest algorithm is timed, correct and remembered.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/product_tuning.h"
#include "cuda/cuda_backend.h"
#include "cuda/gemm/batch_pointers.h"
#include "cuda/gemm/product_cache.h"
#include "cuda/runtime/cuda_device.h"
#include "cuda/runtime/cuda_stream.h"
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

namespace fs = std::filesystem;

constexpr const char* identity = "NVIDIA H200, driver 580.65.06, cublasLt 130100";

ProductChoices two_choices() {
  ProductChoice first{.batching = Batching::pointers,
                      .candidates = 11,
                      .first_seconds = 117.5e-6,
                      .seconds = 95.2e-6};
  for (std::size_t i = 0; i < first.algorithm.size(); ++i) first.algorithm.at(i) = ~i;
  ProductChoice second;
  second.algorithm[3] = 7;
  second.seconds = second.first_seconds = std::numeric_limits<double>::quiet_NaN();
  return {{"c[2048,12800] = a b", first}, {"c[1,1] += a b", second}};
}

void expect_same(const ProductChoices& got, const ProductChoices& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [product, choice] : want) {
    ASSERT_TRUE(got.contains(product)) << product;
    const ProductChoice& other = got.at(product);
    EXPECT_TRUE(other.same_algorithm(choice)) << product;
    EXPECT_EQ(other.candidates, choice.candidates);
    if (std::isnan(choice.seconds)) {
      EXPECT_TRUE(std::isnan(other.seconds) && std::isnan(other.first_seconds));
      continue;
    }
    EXPECT_EQ(other.seconds, choice.seconds);
    EXPECT_EQ(other.first_seconds, choice.first_seconds);
  }
}

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ProductChoicesText, ComesBackAsItWas) {
  expect_same(choices_of(text_of(two_choices(), identity), identity), two_choices());
}

TEST(ProductChoicesText, OfAnotherIdentityIsNotTaken) {
  EXPECT_TRUE(choices_of(text_of(two_choices(), identity), "NVIDIA A100").empty());
}

TEST(ProductChoicesText, DamageIsNotTaken) {
  const std::string whole = text_of(two_choices(), identity);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(choices_of(whole.substr(0, i), identity).empty()) << i;
  }
  EXPECT_TRUE(choices_of(whole + "x", identity).empty());
  std::string unnamed = whole;
  unnamed.replace(unnamed.find("pointers"), 8, "pointer?");
  EXPECT_TRUE(choices_of(unnamed, identity).empty());
}

TEST(ProductCacheFile, IsMadeReadAndAddedTo) {
  const TempFolder temp;
  const ProductCache cache(temp.path() / "a" / "b", identity);
  EXPECT_TRUE(cache.read().empty());
  ProductChoices all = two_choices();
  for (const auto& [product, choice] : all) cache.add({{product, choice}});
  expect_same(ProductCache(temp.path() / "a" / "b", identity).read(), all);
  EXPECT_EQ(cache.path().filename(),
            "products-NVIDIA-H200--driver-580.65.06--cublasLt-130100.json");
  EXPECT_EQ(std::distance(fs::directory_iterator(temp.path() / "a" / "b"), {}), 1);
  const auto last = std::prev(all.end());
  last->second.seconds = 1;
  cache.add({*last});
  expect_same(cache.read(), all);
}

TEST(ProductCacheFile, ADamagedOneIsReplaced) {
  const TempFolder temp;
  const ProductCache cache(temp.path(), identity);
  cache.add(two_choices());
  std::ofstream(cache.path()) << contents(cache.path()).substr(0, 100);
  EXPECT_TRUE(cache.read().empty());
  cache.add(two_choices());
  expect_same(cache.read(), two_choices());
}

TEST(ProductCacheFile, APlaceThatCannotBeWrittenIsNoError) {
  const TempFolder temp;
  std::ofstream(temp.path() / "file") << "x";
  for (const fs::path& folder : {temp.path() / "file" / "inside", fs::path("/proc/none")}) {
    const ProductCache cache(folder, identity);
    EXPECT_NO_THROW(cache.add(two_choices()));
    EXPECT_TRUE(cache.read().empty());
  }
  const ProductCache nowhere({}, identity);
  EXPECT_NO_THROW(nowhere.add(two_choices()));
  EXPECT_TRUE(nowhere.read().empty());
}

TEST(CacheFolder, IsByTheFirstVariableThatIsSet) {
  const EnvironmentVariable home("HOME", "/home/someone");
  const EnvironmentVariable no_xdg("XDG_CACHE_HOME", "");
  const EnvironmentVariable no_own("PACELINE_CACHE", nullptr);
  EXPECT_EQ(cache_folder(), "/home/someone/.cache/paceline");
  {
    const EnvironmentVariable xdg("XDG_CACHE_HOME", "/caches");
    EXPECT_EQ(cache_folder(), "/caches/paceline");
    const EnvironmentVariable own("PACELINE_CACHE", "/own");
    EXPECT_EQ(cache_folder(), "/own");
  }
  const EnvironmentVariable no_home("HOME", nullptr);
  EXPECT_TRUE(cache_folder().empty());
}

// ---- the address arrays of products with two batch dimensions ----------------------------------

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
