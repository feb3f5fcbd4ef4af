#include "experiments/precision/precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cpu/cpu_device.h"
#include "experiments/precision/accumulation.h"
#include "harness/lone_world.h"

namespace paceline {
namespace {

// The status of a single case with the factors of `c`.
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
  const auto status = [](double error, double sum) {
    CaseRecord record;
    add_accumulated(record, {.sum = sum, .rounding_error = error, .rounding_largest = 0.01});
    return record.status;
  };
  EXPECT_EQ(status(0.01, 1), Status::ok);
  EXPECT_EQ(status(0.011, 1), Status::mismatch);
}

TEST(Accumulation, ASumThatIsNotFiniteNeedsAnOverflow) {
  const auto status = [](double sum, double rounded_sum, bool nan_on_overflow = false) {
    CaseRecord record;
    add_accumulated(record, {.sum = sum,
                             .rounding_error = std::abs(sum - rounded_sum),
                             .rounding_bound = 0.01,
                             .rounding_largest = 0.01,
                             .rounded_sum = rounded_sum,
                             .largest = 65504,
                             .nan_on_overflow = nan_on_overflow});
    return record.status;
  };
  constexpr double infinite = HUGE_VAL;
  EXPECT_EQ(status(infinite, 70000), Status::ok);
  EXPECT_EQ(status(-infinite, -70000), Status::ok);
  EXPECT_EQ(status(infinite, 65503), Status::ok);  // rounding may exceed the largest number
  EXPECT_EQ(status(infinite, 60000), Status::mismatch);
  EXPECT_EQ(status(NAN, 70000), Status::mismatch);
  EXPECT_EQ(status(NAN, 70000, true), Status::ok);
  EXPECT_EQ(status(NAN, 60000, true), Status::mismatch);
  EXPECT_EQ(status(NAN, infinite), Status::ok);
}

TEST(Accumulation, SumsThatOverflowAreOk) {
  CpuDevice device(std::size_t{1} << 28U, 1);
  for (const Summation summation : {Summation::pairwise, Summation::compensated}) {
    AccumulationFactors c;
    c.count = 10;
    c.addend = 60000;
    c.summation = summation;
    c.arithmetic = Arithmetic::fp16;
    CaseRecord record;
    add_accumulated(record, accumulate(device, c));
    EXPECT_EQ(record.status, Status::ok) << name_of(summation);
    c.count = 1;  // within the range
    EXPECT_EQ(accumulate(device, c).largest, 65504);
    EXPECT_EQ(accumulate(device, c).sum, 60000);
  }
}

}  // namespace
}  // namespace paceline
