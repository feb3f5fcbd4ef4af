// The warnings are those of NCCL 2.28.

#include "mpi/nccl_memory.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(NcclMemory, AnAllocationThatFailsSaysItsBytes) {
  EXPECT_EQ(failed_allocation_bytes("Failed to CUDA malloc 2097152 bytes"), 2097152U);
  EXPECT_EQ(failed_allocation_bytes("Failed to CUDA calloc 536870912 bytes"), 536870912U);
  EXPECT_EQ(failed_allocation_bytes("Failed to CUDA calloc async 2432 bytes"), 2432U);
  EXPECT_EQ(failed_allocation_bytes("Failed to CUDA host alloc 4096 bytes"), 4096U);
  EXPECT_EQ(failed_allocation_bytes("Failed to malloc 72 bytes"), 72U);
}

TEST(NcclMemory, AFailureOfCudaThatDoesNotSayItsBytesLacksAPage) {
  EXPECT_EQ(failed_allocation_bytes("Cuda failure 'out of memory'"), 0U);
  EXPECT_EQ(failed_allocation_bytes("Cuda failure 2 'out of memory'"), 0U);
}

TEST(NcclMemory, OtherWarningsAreNotAboutMemory) {
  for (const char* warning :
       {"", "Cuda failure 'an illegal memory access was encountered'", "Cuda failure 'out of",
        "Cuda failure 1 'invalid argument'", "Failed to malloc", "Failed to CUDA calloc many bytes",
        "Failed to CUDA calloc 12 byte", "Failed to open libibverbs.so",
        "socketProgress: Connection closed by remote peer node1<41234>",
        "rank 1: Cuda failure 'out of memory'"}) {
    EXPECT_FALSE(failed_allocation_bytes(warning)) << warning;
  }
}

}  // namespace
}  // namespace paceline
