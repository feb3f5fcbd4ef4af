#include "core/demangled.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Demangled, NamesThatAreMangled) {
  EXPECT_EQ(demangled("_ZN8paceline4warmEi"), "paceline::warm(int)");
  EXPECT_EQ(demangled("nvjet_sm90_hss_128x256_64x4"), "nvjet_sm90_hss_128x256_64x4");
}

}  // namespace
}  // namespace paceline
