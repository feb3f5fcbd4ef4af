#include "measure/step_trace.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Intervals = std::vector<Interval>;

TEST(IntervalsTest, AUnionIsDisjointAndInOrder) {
  const Intervals all = union_of({{4, 6}, {0, 1}, {1, 2}, {5, 5.5}, {5, 8}, {9, 9.5}});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].begin, 0);
  EXPECT_EQ(all[0].end, 2);
  EXPECT_EQ(all[1].begin, 4);
  EXPECT_EQ(all[1].end, 8);
  EXPECT_EQ(all[2].begin, 9);
  EXPECT_EQ(length_of(all), 6.5);
  EXPECT_TRUE(union_of({}).empty());
}

TEST(IntervalsTest, LengthCoveredByOtherIntervals) {
  const Intervals cover = {{2, 4}, {3, 5}, {8, 9}, {0, 1}};
  EXPECT_EQ(covered_length({{0, 10}}, cover), 1 + 3 + 1);
  EXPECT_EQ(covered_length({{3, 8.5}}, cover), 2 + 0.5);
  EXPECT_EQ(covered_length({{3, 8.5}, {2, 3}}, cover), 2 + 0.5 + 1);
  EXPECT_EQ(covered_length({{5, 8}, {9, 20}, {-3, 0}}, cover), 0);
  EXPECT_EQ(covered_length({{0, 10}}, {}), 0);
}

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

TEST(KernelNameTest, TruncatesLongNames) {
  const std::string name = short_kernel_name(std::string(100, 'k'));
  EXPECT_EQ(name, std::string(77, 'k') + "...");
}

}  // namespace
}  // namespace paceline
