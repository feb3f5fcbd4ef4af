#include "core/memory_ledger.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/scope.h"
#include "mpi/nccl_memory.h"

namespace paceline {
namespace {

class MemoryLedgerTest : public testing::Test {
 protected:
  void take(int address, std::size_t bytes, MemoryKind kind, const std::string& scope = "",
            const Shape& shape = {}) {
    ledger.allocated(at(address), {.bytes = bytes, .kind = kind, .scope = scope, .shape = shape});
  }
  void give(int address) { ledger.released(at(address)); }

  MemoryLedger ledger;

 private:
  const void* at(int address) { return &places_[static_cast<std::size_t>(address)]; }
  std::array<char, 64> places_{};
};

TEST_F(MemoryLedgerTest, KeepsPeaks) {
  take(0, 100, MemoryKind::parameter);
  take(1, 50, MemoryKind::activation);
  give(1);
  take(2, 30, MemoryKind::gradient);
  EXPECT_EQ(ledger.peak(), 150U);
  EXPECT_EQ(ledger.peak(MemoryKind::activation), 50U);
  EXPECT_EQ(ledger.peak(MemoryKind::gradient), 30U);
  ledger.reset_peak();
  EXPECT_EQ(ledger.peak(), 130U);
  EXPECT_EQ(ledger.peak(MemoryKind::activation), 0U);
  EXPECT_EQ(ledger.peak(MemoryKind::parameter), 100U);
}

TEST_F(MemoryLedgerTest, LargestBlocksLargestFirst) {
  take(0, 10, MemoryKind::activation, "a");
  take(1, 30, MemoryKind::activation, "b");
  take(2, 20, MemoryKind::workspace, "c");
  give(1);  // still one of the largest since the peak was reset
  const auto largest = ledger.largest(2);
  ASSERT_EQ(largest.size(), 2U);
  EXPECT_EQ(largest[0].bytes, 30U);
  EXPECT_EQ(largest[0].scope, "b");
  EXPECT_EQ(largest[1].bytes, 20U);
  EXPECT_EQ(largest[1].kind, MemoryKind::workspace);
  EXPECT_EQ(ledger.largest(10).size(), 3U);
}

TEST_F(MemoryLedgerTest, BlocksAlikeInEveryLayerCountOnce) {
  take(0, 30, MemoryKind::activation, "block 0/ffn");
  take(1, 30, MemoryKind::activation, "block 12/ffn");
  take(2, 30, MemoryKind::activation, "block 12/ffn 2");
  take(3, 30, MemoryKind::activation, "block /ffn");
  take(4, 30, MemoryKind::gradient, "block 0/ffn");
  const auto largest = ledger.largest(10);
  ASSERT_EQ(largest.size(), 4U);
  EXPECT_EQ(largest[0].scope, "block */ffn");
}

TEST_F(MemoryLedgerTest, LargestBlocksOfDifferentShapesAreListedEach) {
  int address = 0;
  for (const std::int64_t columns : {2, 4, 4}) {
    take(address++, 32, MemoryKind::activation, "ffn", {8 / columns, columns});
  }
  const auto largest = ledger.largest(10);
  ASSERT_EQ(largest.size(), 2U);
  EXPECT_NE(largest[0].shape, largest[1].shape);
}

TEST_F(MemoryLedgerTest, PeaksWithinAPhase) {
  take(0, 100, MemoryKind::parameter);
  take(1, 50, MemoryKind::activation);
  ledger.begin_phase("backward");
  EXPECT_EQ(ledger.phase_peak(), 150U);
  give(1);
  take(2, 30, MemoryKind::gradient);
  EXPECT_EQ(ledger.phase_peak(), 150U);
  EXPECT_EQ(ledger.phase_peak(MemoryKind::activation), 50U);
  EXPECT_EQ(ledger.phase_peak(MemoryKind::gradient), 30U);
  ledger.begin_phase("optimizer");
  EXPECT_EQ(ledger.phase_peak(), 130U);
  EXPECT_EQ(ledger.phase_peak(MemoryKind::activation), 0U);
  EXPECT_EQ(ledger.peak(), 150U);
}

TEST_F(MemoryLedgerTest, LargestCountFromReset) {
  take(0, 30, MemoryKind::activation, "gone");
  take(1, 20, MemoryKind::activation, "here");
  give(0);
  ledger.reset_peak();
  const auto largest = ledger.largest(10);
  ASSERT_EQ(largest.size(), 1U);
  EXPECT_EQ(largest[0].scope, "here");
}

TEST_F(MemoryLedgerTest, KeepsTheLargestOfMany) {
  for (int i = 0; i < 64; ++i) take(i, static_cast<std::size_t>(i) + 1, MemoryKind::activation);
  const auto largest = ledger.largest(3);
  ASSERT_EQ(largest.size(), 3U);
  EXPECT_EQ(largest[0].bytes, 64U);
  EXPECT_EQ(largest[2].bytes, 62U);
}

TEST_F(MemoryLedgerTest, RecordsEventsWhileAsked) {
  ledger.begin_phase("forward");
  take(0, 10, MemoryKind::parameter, "before");
  ledger.start_recording();
  take(1, 20, MemoryKind::activation, "during");
  ledger.begin_phase("backward");
  give(1);
  const auto events = ledger.stop_recording();
  take(2, 30, MemoryKind::activation, "after");
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].seconds, 0);
  EXPECT_EQ(events[0].bytes, 10);
  EXPECT_EQ(events[0].scope, "before");
  EXPECT_EQ(events[0].phase, "");
  EXPECT_EQ(events[1].phase, "forward");
  EXPECT_EQ(events[2].phase, "backward");
  EXPECT_EQ(events[1].bytes, 20);
  EXPECT_EQ(events[1].kind, MemoryKind::activation);
  EXPECT_EQ(events[2].bytes, -20);
  EXPECT_EQ(events[2].scope, "during");
  EXPECT_EQ(events[2].address, events[1].address);
  EXPECT_GE(events[2].seconds, events[1].seconds);

  ledger.start_recording();
  EXPECT_EQ(ledger.stop_recording().size(), 2U);  // the allocations in use, no earlier events
}

TEST_F(MemoryLedgerTest, RefusesRepeatedAddressesAndUnknownReleases) {
  take(0, 10, MemoryKind::parameter);
  EXPECT_THROW(take(0, 10, MemoryKind::parameter), InternalError);
  EXPECT_THROW(give(1), InternalError);
}

TEST(ScopeTest, NamesNestAndEnd) {
  ScopeStack stack;
  EXPECT_EQ(stack.path(), "");
  {
    const Scope block(stack, "block 3");
    EXPECT_EQ(stack.path(), "block 3");
    {
      const Scope attention(stack, "attention");
      EXPECT_EQ(stack.path(), "block 3/attention");
    }
    const Scope ffn(stack, "ffn");
    EXPECT_EQ(stack.path(), "block 3/ffn");
  }
  EXPECT_EQ(stack.path(), "");
}

TEST(ScopeTest, AnOperationCountsItsMemoryToTheRegionAroundIt) {
  ScopeStack stack;
  const Scope block(stack, "block 3");
  const Scope matmul(stack, "matmul", {.flops = 8});
  EXPECT_EQ(stack.path(), "block 3");
  EXPECT_EQ(stack.paths().back().text, "block 3/matmul");
}

TEST(ScopeTest, EveryPathHasOneNumberHoweverItIsReached) {
  ScopeStack stack;
  const auto visit = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const Scope outer(stack, name);
      const Scope inner(stack, "ffn");
    }
  };
  visit({"block 0", "block 1", "block 2"});
  const std::size_t count = stack.paths().size();
  EXPECT_EQ(count, 7U);  // three blocks with one ffn each, and the root
  visit({"block 2", "block 1", "block 0", "block 0", "block 2"});
  EXPECT_EQ(stack.paths().size(), count);
}

class Listener final : public ScopeListener {
 public:
  void entered(ScopeId scope, const OpWork* work) override {
    heard.push_back((work == nullptr ? "region " : "operation ") + std::to_string(scope));
  }
  void left() override { heard.emplace_back("left"); }

  std::vector<std::string> heard;
};

TEST(ScopeTest, NotifiesAListenerUntilItIsReset) {
  ScopeStack stack;
  Listener listener;
  stack.set_listener(&listener);
  {
    const Scope block(stack, "block 0");
    const Scope add(stack, "add", {.bytes = 4});
  }
  stack.set_listener(nullptr);
  { const Scope block(stack, "block 0"); }
  EXPECT_EQ(listener.heard, (std::vector<std::string>{"region 1", "operation 2", "left", "left"}));
}

// The warnings are those of NCCL 2.28.
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
