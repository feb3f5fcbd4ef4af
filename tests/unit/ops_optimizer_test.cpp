#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

class OptimizerOps : public OpsTest {
 protected:
  // torch.optim.AdamW (_single_tensor_adamw), in double.
  struct Reference {
    std::vector<double> p, m, v;
    int step = 0;

    void update(const std::vector<double>& g, double lr, const AdamWConfig& c) {
      ++step;
      const double correction1 = 1 - std::pow(c.beta1, step);
      const double correction2 = 1 - std::pow(c.beta2, step);
      for (std::size_t i = 0; i < p.size(); ++i) {
        p[i] *= 1 - lr * c.weight_decay;
        m[i] += (g[i] - m[i]) * (1 - c.beta1);
        v[i] = v[i] * c.beta2 + g[i] * g[i] * (1 - c.beta2);
        const double denominator = std::sqrt(v[i]) / std::sqrt(correction2) + c.eps;
        p[i] -= lr / correction1 * m[i] / denominator;
      }
    }
  };

  struct Arrays {
    Array p, g, m, v, copy;

    [[nodiscard]] AdamWRange range() const {
      return {.parameters = p, .gradients = g, .m = m, .v = v, .copy = copy};
    }
  };

  Arrays make(std::int64_t n, Dtype d, Dtype copy) {
    Arrays a{.p = random({n}, d),
             .g = random({n}, d),
             .m = random({n}, d, 0),
             .v = random({n}, d, 0),
             .copy = {}};
    if (copy != d) a.copy = poisoned({n}, copy);
    return a;
  }

  StepState new_state(bool scaling) {
    return StepState::create(device, 1, 1, Dtype::f32, scaling, 0.01);
  }
  double get(const StepState& s, StepScalar which) { return s.get(device, which); }
  void whole_step(Ops& o, const StepState& s, const AdamWRange& range, const AdamWConfig& config) {
    o.check_finite(s, range.gradients);
    o.begin_optimizer_step(s, config);
    o.adamw(range, s, config);
    o.end_optimizer_step(s);
  }
};

TEST_F(OptimizerOps, adamw_agrees_with_torch_over_several_steps) {
  const AdamWConfig config{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};
  for (const Dtype d : {Dtype::f64, Dtype::f32}) {
    for (const std::int64_t n : {1, 3, 127, 129, 20001}) {
      SCOPED_TRACE(testing::Message() << name_of(d) << " " << n);
      const StepState state = new_state(false);
      Arrays a = make(n, d, Dtype::bf16);
      Reference reference{.p = values(a.p), .m = values(a.m), .v = values(a.v)};
      for (int step = 1; step <= 5; ++step) {
        const double lr = 0.01 * step;
        state.set(device, StepScalar::learning_rate, lr);
        a.g = random({n}, d, step == 3 ? 1e-4 : 1);
        reference.update(values(a.g), lr, config);
        whole_step(*ops, state, a.range(), config);
        EXPECT_EQ(get(state, StepScalar::step), step);
        expect_close(a.p, reference.p);
        expect_close(a.m, reference.m);
        expect_close(a.v, reference.v);
        EXPECT_EQ(values(a.copy), values(copy_of(a.p, Dtype::bf16)));
      }
    }
  }
}

TEST_F(OptimizerOps, adamw_divides_the_loss_scale_out_of_the_gradients) {
  const AdamWConfig config;
  const auto mixed = make_ops("fp16");
  const StepState state = new_state(true);
  Arrays a = make(129, Dtype::f32, Dtype::f16);
  Reference reference{.p = values(a.p), .m = values(a.m), .v = values(a.v)};
  reference.update(values(a.g), 0.01, config);
  std::vector<double> scaled = values(a.g);
  for (double& g : scaled) g *= 65536;
  set(a.g, scaled);
  whole_step(*mixed, state, a.range(), config);
  expect_close(a.p, reference.p);
  expect_close(a.m, reference.m);
  expect_close(a.v, reference.v);
  EXPECT_EQ(values(a.copy), values(copy_of(a.p, Dtype::f16)));
}

TEST_F(OptimizerOps, a_skipped_step_changes_nothing) {
  const AdamWConfig config;
  const StepState state = new_state(false);
  const Arrays a = make(129, Dtype::f32, Dtype::f16);
  const std::vector<double> p = values(a.p);
  state.set(device, StepScalar::found_inf, 1);
  ops->begin_optimizer_step(state, config);
  ops->adamw(a.range(), state, config);
  EXPECT_EQ(values(a.p), p);
  EXPECT_EQ(values(a.m), std::vector<double>(129));
  EXPECT_EQ(values(a.v), std::vector<double>(129));
  EXPECT_TRUE(std::isnan(values(a.copy)[0]));
  EXPECT_EQ(get(state, StepScalar::step), 0);
  ops->end_optimizer_step(state);
  EXPECT_EQ(get(state, StepScalar::found_inf), 0);
}

TEST_F(OptimizerOps, the_loss_scale_doubles_after_2000_good_steps_and_halves_after_a_bad_one) {
  const AdamWConfig config;
  const auto mixed = make_ops("fp16");
  const StepState state = new_state(true);
  const auto step = [&](bool bad) {
    if (bad) state.set(device, StepScalar::found_inf, 1);
    mixed->begin_optimizer_step(state, config);
    mixed->end_optimizer_step(state);
  };
  for (int i = 0; i < 1999; ++i) step(false);
  EXPECT_EQ(get(state, StepScalar::loss_scale), 65536);
  EXPECT_EQ(get(state, StepScalar::good_steps), 1999);
  step(false);
  EXPECT_EQ(get(state, StepScalar::loss_scale), 131072);
  EXPECT_EQ(get(state, StepScalar::good_steps), 0);
  // The gradients of that step had the old scale; the next step's have the new one.
  EXPECT_EQ(get(state, StepScalar::gradient_scale), 1.0 / 65536);
  step(false);
  EXPECT_EQ(get(state, StepScalar::gradient_scale), 1.0 / 131072);
  EXPECT_EQ(get(state, StepScalar::good_steps), 1);
  step(true);
  EXPECT_EQ(get(state, StepScalar::loss_scale), 65536);
  EXPECT_EQ(get(state, StepScalar::good_steps), 0);
  EXPECT_EQ(get(state, StepScalar::step), 2001);
  step(true);
  EXPECT_EQ(get(state, StepScalar::loss_scale), 32768);
}

TEST_F(OptimizerOps, check_finite_finds_one_bad_element_and_keeps_an_earlier_finding) {
  for (const Dtype d : floating_dtypes) {
    for (const double bad :
         {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()}) {
      for (const std::size_t at : {0UL, 6001UL, 20000UL}) {
        const StepState state = new_state(false);
        const Array x = random({20001}, d);
        ops->check_finite(state, x);
        EXPECT_EQ(get(state, StepScalar::found_inf), 0);
        std::vector<double> changed = values(x);
        changed[at] = bad;
        const Array y = tensor({20001}, d, changed);
        ops->check_finite(state, y);
        EXPECT_EQ(get(state, StepScalar::found_inf), 1);
        ops->check_finite(state, x);
        EXPECT_EQ(get(state, StepScalar::found_inf), 1);
      }
    }
  }
}

TEST_F(OptimizerOps, sgd) {
  for (const Dtype d : floating_dtypes) {
    const Array p = random({129}, d);
    const Array g = random({129}, d);
    std::vector<double> want = values(p);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] -= 0.1 * values(g)[i];
    ops->sgd(p, g, 0.1);
    expect_close(p, want);
  }
}

}  // namespace
}  // namespace paceline
