// The file of tuned products. Needs no GPU.

#include "cuda/gemm/product_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "tests/unit/environment_variable.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

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

}  // namespace
}  // namespace paceline
