#include "cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/ops.h"

namespace paceline {
namespace {

constexpr std::size_t megabyte = 1 << 20;
constexpr auto activation = MemoryKind::activation;

std::size_t address(const Array& x) { return reinterpret_cast<std::size_t>(x.tensor().data); }

TEST(CpuDevice, aligns_blocks_and_counts_them_by_kind_and_scope) {
  CpuDevice device(megabyte, 1);
  {
    const Scope scope(device.scopes(), "block 3");
    const Array x = device.allocate({3}, Dtype::f32, MemoryKind::parameter);
    const Array y = device.allocate({1000}, Dtype::bf16, activation);
    const Array nothing = device.allocate({0}, Dtype::f32, activation);
    for (const Array& a : {x, y, nothing}) EXPECT_EQ(address(a) % 256, 0U);
    EXPECT_EQ(device.ledger().bytes(MemoryKind::parameter), 256U);
    EXPECT_EQ(device.ledger().bytes(activation), 2048U + 256U);
    EXPECT_EQ(device.ledger().largest(1).at(0).scope, "block *");
  }
  EXPECT_EQ(device.ledger().bytes(), 0U);
  EXPECT_EQ(device.reserved_bytes(), 256U + 2048U + 256U);
  device.trim();
  EXPECT_EQ(device.reserved_bytes(), 0U);
}

TEST(CpuDevice, the_last_copy_of_an_array_releases_its_block) {
  CpuDevice device(megabyte, 1);
  Array x = device.allocate({64}, Dtype::f32, activation);
  Array copy = x;
  Array view = copy.reshape({8, 8});
  x = {};
  copy = {};
  EXPECT_EQ(device.ledger().bytes(), 256U);
  // The last owner may be a host function that runs on the worker thread.
  device.communication_stream().enqueue([last = std::move(view)] {});
  device.synchronize();
  EXPECT_EQ(device.ledger().bytes(), 0U);
}

TEST(CpuDevice, reuses_a_released_block_of_the_same_rounded_size_only) {
  CpuDevice device(megabyte, 1);
  Array x = device.allocate({100}, Dtype::f32, activation);
  const std::size_t first = address(x);
  x = {};
  const Array larger = device.allocate({129}, Dtype::f32, activation);
  EXPECT_NE(address(larger), first);
  const Array same = device.allocate({101}, Dtype::f32, activation);  // 512 bytes too
  EXPECT_EQ(address(same), first);
  EXPECT_EQ(device.reserved_bytes(), 512U + 768U);
}

TEST(CpuDevice, throws_out_of_memory_beyond_the_limit) {
  CpuDevice device(4096, 1);
  const Scope scope(device.scopes(), "step");
  const Array x = device.allocate({768}, Dtype::f32, activation);  // 3072 bytes
  const Array all = device.allocate({256}, Dtype::f32, activation);
  try {
    const Array more = device.allocate({1}, Dtype::f32, activation);
    FAIL() << "more than the limit was handed out";
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(e.requested, 256U);
    EXPECT_EQ(e.in_use, 4096U);
    EXPECT_EQ(e.limit, 4096U);
    EXPECT_EQ(e.scope, "step");
    EXPECT_STREQ(e.what(),
                 "'step' asked for 256 B with 4.10 KB of 4.10 KB in use (activation 4.10 KB)");
  }
  EXPECT_EQ(device.ledger().bytes(), 4096U);
  EXPECT_EQ(device.reserved_bytes(), 4096U);
}

TEST(CpuDevice, throws_out_of_memory_for_more_than_an_address_space) {
  CpuDevice device(4096, 1);
  EXPECT_THROW((void)device.allocate({std::int64_t{1} << 60}, Dtype::f64, activation), OutOfMemory);
}

TEST(CpuDevice, releases_cached_blocks_before_it_runs_out_of_memory) {
  CpuDevice device(4096, 1);
  const Array kept = device.allocate({256}, Dtype::f32, activation);
  { const Array released = device.allocate({768}, Dtype::f32, activation); }
  EXPECT_EQ(device.reserved_bytes(), 4096U);
  const Array x = device.allocate({512}, Dtype::f32, activation);  // 2048: only by freeing 3072
  EXPECT_EQ(device.reserved_bytes(), 1024U + 2048U);
  EXPECT_EQ(device.ledger().bytes(), 1024U + 2048U);
}

TEST(CpuDevice, a_frozen_device_serves_only_reserved_memory) {
  CpuDevice device(megabyte, 1);
  { const Array rehearsed = device.allocate({1024}, Dtype::f32, activation); }
  device.freeze();
  const Array again = device.allocate({1024}, Dtype::f32, activation);
  const Scope scope(device.scopes(), "block 0");
  try {
    const Array second = device.allocate({1024}, Dtype::f32, activation);
    FAIL() << "a frozen device reserved memory";
  } catch (const InternalError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("4096"), std::string::npos) << what;
    EXPECT_NE(what.find("block 0"), std::string::npos) << what;
  }
  device.trim();
  EXPECT_EQ(device.reserved_bytes(), 4096U);  // what is in use stays
  EXPECT_NO_THROW((void)device.allocate({1024}, Dtype::f32, activation));
}

TEST(CpuStreams, the_inline_stream_runs_work_at_once_on_the_caller) {
  CpuDevice device(megabyte, 1);
  std::thread::id ran_on;
  device.compute_stream().enqueue([&] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_THROW(device.compute_stream().enqueue([] { throw std::runtime_error("x"); }),
               std::runtime_error);
}

TEST(CpuStreams, the_worker_runs_work_in_order_on_another_thread) {
  CpuDevice device(megabyte, 1);
  std::vector<int> order;
  std::thread::id ran_on;
  for (int i = 0; i < 100; ++i) {
    device.communication_stream().enqueue([&, i] {
      ran_on = std::this_thread::get_id();
      order.push_back(i);
    });
  }
  device.synchronize();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST(CpuStreams, enqueued_work_does_not_block_the_caller_but_waits_do) {
  CpuDevice device(megabyte, 1);
  Stream& worker = device.communication_stream();
  std::atomic<bool> go = false;
  std::atomic<bool> done = false;
  worker.enqueue([&] {
    while (!go) std::this_thread::yield();
    done = true;
  });
  const EventPtr event = worker.record();
  EXPECT_FALSE(done);
  EXPECT_THROW((void)event->seconds_since(*device.compute_stream().record()), InternalError);
  go = true;
  device.compute_stream().wait(event);
  EXPECT_TRUE(done);
}

TEST(CpuStreams, events_order_both_streams_both_ways_many_times) {
  CpuDevice device(megabyte, 1);
  Stream& compute = device.compute_stream();
  Stream& communication = device.communication_stream();
  int value = 0;  // a data race without the waits
  for (int i = 0; i < 500; ++i) {
    compute.enqueue([&] { value += 1; });
    communication.wait(compute.record());
    communication.wait(communication.record());
    communication.enqueue([&] { value *= -1; });
    compute.wait(communication.record());
  }
  EXPECT_EQ(value, 0);
}

TEST(CpuStreams, events_tell_the_time_between_them) {
  CpuDevice device(megabyte, 1);
  Stream& worker = device.communication_stream();
  const double began = host_seconds();
  const EventPtr before = worker.record();
  worker.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  const EventPtr after = worker.record();
  after->synchronize();
  EXPECT_LE(after->seconds_since(*before), host_seconds() - began);
  EXPECT_GE(after->seconds_since(*before), 0.020);
  EXPECT_LE(before->seconds_since(*after), -0.020);
}

TEST(CpuStreams, an_exception_of_the_worker_reaches_synchronize_once) {
  CpuDevice device(megabyte, 1);
  Stream& worker = device.communication_stream();
  bool dropped = true;
  worker.enqueue([] { throw UsageError("the first"); });
  worker.enqueue([&] { dropped = false; });
  worker.enqueue([] { throw UsageError("the second"); });
  worker.record()->synchronize();  // still reached
  try {
    device.synchronize();
    FAIL() << "nothing was thrown";
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(), "the first");
  }
  EXPECT_TRUE(dropped);
  bool ran = false;
  worker.enqueue([&] { ran = true; });
  EXPECT_NO_THROW(device.synchronize());
  EXPECT_TRUE(ran);
}

TEST(CpuStreams, the_destructor_finishes_queued_work) {
  int ran = 0;
  {
    CpuDevice device(megabyte, 1);
    for (int i = 0; i < 10; ++i) device.communication_stream().enqueue([&] { ++ran; });
    device.communication_stream().enqueue([] { throw std::runtime_error("nobody asks"); });
  }
  EXPECT_EQ(ran, 10);
}

TEST(CpuDevice, measures_its_ceilings_without_using_its_own_memory) {
  CpuDevice device(0, 2);
  device.freeze();
  for (const char* name : {"fp32", "bf16"}) {
    const std::vector<double> rates = device.gemm_rates(precision_named(name));
    EXPECT_GE(rates.size(), 6U);  // an interval
    EXPECT_GT(*std::min_element(rates.begin(), rates.end()), 1e8);
    EXPECT_LT(*std::max_element(rates.begin(), rates.end()), 1e15);
  }
  const std::vector<double> copy = device.copy_rates();
  EXPECT_GE(copy.size(), 6U);
  EXPECT_GT(*std::min_element(copy.begin(), copy.end()), 1e8);
  EXPECT_LT(*std::max_element(copy.begin(), copy.end()), 1e14);
  EXPECT_EQ(device.ledger().peak(), 0U);
}

}  // namespace
}  // namespace paceline
