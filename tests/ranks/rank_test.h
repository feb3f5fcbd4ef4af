#pragma once
// A GoogleTest program under mpirun: every rank runs the same tests. Rank 0 reports all results,
// the other ranks only failures. The first argument is the backend, mpi or nccl.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/communicator.h"
#include "core/device.h"
#include "core/error.h"
#include "core/world.h"
#include "devices.h"
#include "mpi/mpi_world.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

struct Shared {
  World* world = nullptr;
  Device* device = nullptr;
  Communicator* all = nullptr;
  Communicator* gathers = nullptr;  // a duplicate
  MakeCommunicator make_communicator;
  int failures = 0;  // of the running test
};
inline Shared shared;

inline std::vector<float> floats_of(const Tensor& x) { return get_floats(*shared.device, x); }

// Collective: values of the whole store, gathered from the ranks that keep them.
inline std::vector<float> parameters_of(ParallelStrategy& strategy) {
  std::vector<float> all;
  strategy.visit_parameters([&](const StoreRange&, const Tensor& values) {
    const std::vector<float> some = floats_of(values);
    all.insert(all.end(), some.begin(), some.end());
  });
  return all;
}
inline std::vector<float> gradients_of(ParallelStrategy& strategy) {
  std::vector<float> all;
  strategy.visit_gradients([&](const StoreRange&, const Tensor& values) {
    const std::vector<float> some = floats_of(values);
    all.insert(all.end(), some.begin(), some.end());
  });
  return all;
}

class FailurePrinter final : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) std::cout << "rank " << shared.world->rank() << ": " << result << '\n';
  }
};

inline int run_with(World& world, BackendKind backend) {
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (world.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  const bool host = backend == BackendKind::mpi;
  const RunOptions run{.device = host ? DeviceChoice::cpu : DeviceChoice::cuda,
                       .threads = 1,
                       .memory_limit = std::size_t{1} << 31U};
  const auto [device, make_communicator] = make_device(run, world);
  const std::unique_ptr<Communicator> all = make_communicator(world);
  const std::unique_ptr<Communicator> gathers = all->duplicate(device->gather_stream());
  shared = {.world = &world,
            .device = device.get(),
            .all = all.get(),
            .gathers = gathers.get(),
            .make_communicator = make_communicator};
  return static_cast<int>(world.max(RUN_ALL_TESTS()));
}

inline int run_rank_tests(int argc, char** argv) {
  const std::unique_ptr<World> world = make_mpi_world(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  // A rank that leaves a test early would block the others.
  GTEST_FLAG_SET(catch_exceptions, false);
  try {
    return run_with(*world, argc > 1 ? enum_named<BackendKind>(argv[1]) : BackendKind::mpi);
  } catch (const std::exception& error) {
    std::cout << "rank " << world->rank() << ": " << error.what() << std::endl;
    world->abort(ExitCode::internal);
  }
  return static_cast<int>(ExitCode::internal);
}

}  // namespace paceline
