#include "experiments/precision/precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cpu/cpu_device.h"
#include "experiments/precision/accumulation.h"
#include "harness/lone_world.h"

namespace paceline {
namespace {

// The status of one case, whose factors are all as they stand in `c`.
Status status_of(const PrecisionCase& c) {
  Factors<PrecisionCase> factors = precision_case_factors();
  for (Factor<PrecisionCase>& f : factors) f.defaults = {};
  const FactorOptions<PrecisionCase> options(std::move(factors), c);
  const std::unique_ptr<World> world = make_lone_world();
  CpuDevice device(std::size_t{1} << 28U, 1);
  PrecisionExperiment experiment(options, *world, device);
  EXPECT_EQ(experiment.cases().size(), 1U);
  Progress progress(false, std::vector<double>(1), stderr);
  return experiment.run(0, progress).status;
}

TEST(PrecisionExperiment, AMismatchIsTheCasesStatus) {
  PrecisionCase c;
  c.study = Study::dtypes;
  c.model = StudiedModel::transformer;
  c.precision = precision_named("fp16");
  EXPECT_EQ(status_of(c), Status::ok);
  c.precision.logits = Dtype::f32;
  EXPECT_EQ(status_of(c), Status::mismatch);
}

TEST(Accumulation, AnErrorThatRoundingDoesNotExplainIsAMismatch) {
  const auto status = [](double error, double sum, bool may_overflow = false) {
    CaseRecord record;
    add_accumulated(record, {.sum = sum,
                             .rounding_error = error,
                             .rounding_largest = 0.01,
                             .may_overflow = may_overflow});
    return record.status;
  };
  EXPECT_EQ(status(0.01, 1), Status::ok);
  EXPECT_EQ(status(0.011, 1), Status::mismatch);
  EXPECT_EQ(status(HUGE_VAL, HUGE_VAL), Status::mismatch);
  EXPECT_EQ(status(NAN, NAN), Status::mismatch);
  EXPECT_EQ(status(HUGE_VAL, HUGE_VAL, true), Status::ok);
}

TEST(Accumulation, ASumMayOverflowBeyondTheLargestNumberOfItsDtype) {
  CpuDevice device(std::size_t{1} << 20U, 1);
  AccumulationFactors c;
  c.arithmetic = Arithmetic::fp16;
  c.addend = 10;
  c.count = 1000;
  EXPECT_FALSE(accumulate(device, c).may_overflow);
  c.addend = 100;
  EXPECT_TRUE(accumulate(device, c).may_overflow);
}

}  // namespace
}  // namespace paceline
