#include "core/kernel_name.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(KernelNameTest, LeavesOutNamespacesParametersAndInnerArguments) {
  EXPECT_EQ(short_kernel_name("void paceline::(anonymous namespace)::rms_norm_kernel<float, 4>"
                              "(float*, int)"),
            "rms_norm_kernel<float, 4>");
  EXPECT_EQ(short_kernel_name("void cutlass::Kernel<Gemm<Tile<128, 64>, float>, 3>(Params)"),
            "Kernel<Gemm, 3>");
  EXPECT_EQ(short_kernel_name("void sm90_forward_kernel<ForwardTile<64, 128> >(Params)"),
            "sm90_forward_kernel<ForwardTile>");
  EXPECT_EQ(short_kernel_name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"),
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
}

TEST(KernelNameTest, NamesThatAreMangled) {
  EXPECT_EQ(demangled("_ZN8paceline4warmEi"), "paceline::warm(int)");
  EXPECT_EQ(demangled("nvjet_sm90_hss_128x256_64x4"), "nvjet_sm90_hss_128x256_64x4");
}

TEST(KernelNameTest, TruncatesLongNames) {
  const std::string name = short_kernel_name(std::string(100, 'k'));
  EXPECT_EQ(name, std::string(77, 'k') + "...");
}

}  // namespace
}  // namespace paceline
