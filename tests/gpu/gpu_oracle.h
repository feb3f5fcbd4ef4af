#pragma once
// The operations of the GPU against the CPU oracle, in the precision of the test's parameter.

#include <array>
#include <memory>
#include <optional>

#include "cuda/cuda_backend.h"
#include "tests/oracle/oracle.h"

namespace paceline {

class GpuOracle : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr std::array<std::int64_t, 4> rows = {1, 3, 127, 129};
  static constexpr std::array<std::int64_t, 4> cols = {1, 5, 131, 768};

  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    gpu = make_cuda_device(0, std::nullopt, 1);
    oracle = std::make_unique<Oracle>(*gpu, precision_named(GetParam()));
  }

  std::unique_ptr<Device> gpu;
  std::unique_ptr<Oracle> oracle;
};

}  // namespace paceline
