#include "core/blas_kernels.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr VectorLevel sse42{"Nehalem", "SSE4.2"};
constexpr VectorLevel avx2{"Haswell", "AVX2 and FMA"};
constexpr VectorLevel avx512{"SkylakeX", "AVX-512"};

TEST(BlasKernels, OlderOnesAreNamedWithTheRemedy) {
  EXPECT_EQ(
      older_kernels("Prescott", avx512),
      "OpenBLAS computes with its kernels for Prescott (SSE3), but the processor has AVX-512: "
      "set OPENBLAS_CORETYPE=SkylakeX");
  for (const char* old : {"Core2", "Barcelona", "Nehalem", "Sandybridge", "Bulldozer"}) {
    EXPECT_NE(older_kernels(old, avx2), "") << old;
  }
  EXPECT_NE(older_kernels("Zen", avx512), "");
  EXPECT_NE(older_kernels("Prescott", sse42), "");
}

TEST(BlasKernels, OfTheProcessorsOwnInstructionsAreNotOld) {
  for (const char* as_new : {"Haswell", "Zen", "Excavator", "SkylakeX", "Zen9"}) {
    EXPECT_EQ(older_kernels(as_new, avx2), "") << as_new;
  }
  for (const char* newest : {"SkylakeX", "Cooperlake", "SapphireRapids"}) {
    EXPECT_EQ(older_kernels(newest, avx512), "") << newest;
  }
  EXPECT_EQ(older_kernels("Prescott", {}), "");  // not x86
}

}  // namespace
}  // namespace paceline
