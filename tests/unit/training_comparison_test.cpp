// --verify's decision: data-parallel training against the noise of single-process training.

#include <gtest/gtest.h>

#include <cmath>

#include "experiments/training/verify.h"

namespace paceline {
namespace {

// Two tensors; the second one's values are `x`.
Snapshot snapshot(std::vector<float> x) { return {{"first", {1, 2}}, {"second", std::move(x)}}; }

Trained trained(std::vector<float> gradients, std::vector<float> weights) {
  return {.gradients = snapshot(std::move(gradients)), .weights = snapshot(std::move(weights))};
}

const Trained single = trained({1, -0.5}, {3, 4});
// Gradients differ by at most 1e-3, weights by a relative distance of 1e-3.
const Trained noisy = trained({1, -0.501F}, {3, 4.005F});

// runs[0] is what the ranks' training is compared with.
Noise noise_of(const std::vector<Trained>& runs) {
  Noise noise;
  for (std::size_t i = 1; i < runs.size(); ++i) noise.add(runs[i], runs[0]);
  return noise;
}

using Compare = bool (TrainingComparison::*)(const Trained&, const Trained&, const Noise&);

TrainingComparison compared(Compare compare, const Trained& together,
                            const std::vector<Trained>& runs) {
  TrainingComparison v;
  const bool allowed = (v.*compare)(together, runs[0], noise_of(runs));
  EXPECT_TRUE(v.status() == Status::diverged || allowed == (v.status() == Status::ok));
  return v;
}
TrainingComparison sgd(const Trained& together,
                       const std::vector<Trained>& runs = {single, single}) {
  return compared(&TrainingComparison::compare_sgd, together, runs);
}
TrainingComparison adamw(const Trained& together,
                         const std::vector<Trained>& runs = {single, noisy}) {
  return compared(&TrainingComparison::compare_adamw, together, runs);
}

TEST(TrainingComparison, equal_training_has_no_error) {
  TrainingComparison v = sgd(single);
  v.compare_adamw(single, single, noise_of({single, single}));
  EXPECT_EQ(v.status(), Status::ok);
  CaseRecord record;
  v.add_to(record);
  for (const char* column : {"verify_gradient_error", "verify_sgd_error", "verify_adamw_error",
                             "verify_adamw_distance"}) {
    EXPECT_EQ(value_in<double>(record.summary, column), 0) << column;
  }
}

TEST(TrainingComparison, weights_after_sgd_are_within_1e_5_of_their_size_and_1e_6) {
  const auto off_by = [](double error) {
    return trained({1, -0.5}, {3, static_cast<float>(4 + error)}).weights[1].values;
  };
  const double allowed = 1e-6 + 1e-5 * 4;
  EXPECT_EQ(sgd(trained({1, -0.5}, off_by(0.95 * allowed))).status(), Status::ok);
  const TrainingComparison v = sgd(trained({1, -0.5}, off_by(1.1 * allowed)));
  EXPECT_EQ(v.status(), Status::mismatch);
  EXPECT_NE(v.reason().find("after SGD 1.1 (second)"), std::string::npos) << v.reason();
}

TEST(TrainingComparison, gradients_are_within_eight_times_the_noise) {
  EXPECT_EQ(adamw(trained({1, -0.5F + 0.0079F}, {3, 4})).status(), Status::ok);
  const TrainingComparison v = adamw(trained({1, -0.5F + 0.0082F}, {3, 4}));
  EXPECT_EQ(v.status(), Status::mismatch);
  EXPECT_NE(v.reason().find("gradients 1.02 (second)"), std::string::npos) << v.reason();
}

TEST(TrainingComparison, weights_after_adamw_are_within_eight_times_the_noise) {
  EXPECT_EQ(adamw(trained({1, -0.5}, {3, 4 + 0.0395F})).status(), Status::ok);
  const TrainingComparison v = adamw(trained({1, -0.5}, {3, 4 + 0.0405F}));
  EXPECT_EQ(v.status(), Status::mismatch);
  EXPECT_NE(v.reason().find("after AdamW 1.01 (second)"), std::string::npos) << v.reason();
}

TEST(TrainingComparison, the_noise_is_the_largest_of_all_runs) {
  const Trained other = trained({1, -0.502F}, {3, 4.01F});
  const Trained together = trained({1, -0.5F + 0.0155F}, {3, 4 + 0.079F});
  EXPECT_EQ(adamw(together, {single, noisy}).status(), Status::mismatch);
  EXPECT_EQ(adamw(together, {single, noisy, other}).status(), Status::ok);
  EXPECT_EQ(adamw(together, {single, other, noisy}).status(), Status::ok);
}

TEST(TrainingComparison, a_comparison_with_more_noise_replaces_the_one_before) {
  const Trained together = trained({1, -0.5}, {3, 4 + 0.0405F});
  TrainingComparison v;
  Noise noise = noise_of({single, noisy});
  EXPECT_FALSE(v.compare_adamw(together, single, noise));
  noise.add(trained({1, -0.5}, {3, 4.01F}), single);
  EXPECT_TRUE(v.compare_adamw(together, single, noise));
  EXPECT_EQ(v.status(), Status::ok);
}

TEST(TrainingComparison, sgd_may_be_off_by_eight_times_the_noise_where_that_is_more) {
  const Trained unstable = trained({1, -0.5}, {3, 4.001F});
  EXPECT_EQ(sgd(trained({1, -0.5}, {3, 4.0079F}), {single, unstable}).status(), Status::ok);
  EXPECT_EQ(sgd(trained({1, -0.5}, {3, 4.0081F}), {single, unstable}).status(), Status::mismatch);
}

TEST(TrainingComparison, without_noise_only_the_relative_tolerance_of_gradients_is_allowed) {
  EXPECT_EQ(adamw(trained({1, -0.5F - 0.9e-5F * 0.5F}, {3, 4}), {single, single}).status(),
            Status::ok);
  EXPECT_EQ(adamw(trained({1, -0.5F - 1.1e-5F * 0.5F}, {3, 4}), {single, single}).status(),
            Status::mismatch);
  EXPECT_EQ(adamw(trained({1, -0.5}, {3, 4 + 0x1p-20F}), {single, single}).status(),
            Status::mismatch);
}

TEST(TrainingComparison, ranks_that_differ_in_bits_are_a_mismatch) {
  TrainingComparison v = sgd(single);
  EXPECT_EQ(v.status(), Status::ok);
  v.ranks_differ();
  EXPECT_EQ(v.status(), Status::mismatch);
  EXPECT_NE(v.reason().find("ranks differ in bits"), std::string::npos);
}

TEST(TrainingComparison, nan_is_never_correct) {
  EXPECT_EQ(sgd(trained({1, -0.5}, {3, NAN})).status(), Status::mismatch);
  EXPECT_EQ(adamw(trained({1, NAN}, {3, 4})).status(), Status::mismatch);
  EXPECT_EQ(adamw(trained({1, -0.5}, {NAN, 4})).status(), Status::mismatch);
}

TEST(TrainingComparison, a_single_process_that_is_not_finite_itself_has_diverged) {
  for (const Trained& bad : {trained({1, NAN}, {3, 4}), trained({1, -0.5}, {3, HUGE_VALF})}) {
    TrainingComparison v;
    v.compare_adamw(bad, bad, noise_of({bad, bad}));
    EXPECT_EQ(v.status(), Status::diverged);
  }
  TrainingComparison v;
  const Trained bad = trained({1, -0.5}, {NAN, 4});
  v.compare_sgd(single, bad, noise_of({bad, bad}));
  EXPECT_EQ(v.status(), Status::diverged);
  EXPECT_NE(v.reason().find("lower --lr"), std::string::npos);
}

// Otherwise its noise would be infinite and allow any error.
TEST(TrainingComparison, a_permuted_run_that_is_not_finite_allows_nothing) {
  const Trained wrong = trained({1, 7}, {3, 7});
  for (const Trained& bad : {trained({1, HUGE_VALF}, {3, 4}), trained({1, -0.5}, {HUGE_VALF, 4})}) {
    EXPECT_EQ(adamw(wrong, {single, bad}).status(), Status::diverged);
    EXPECT_EQ(sgd(wrong, {single, bad}).status(), Status::diverged);
  }
}

}  // namespace
}  // namespace paceline
