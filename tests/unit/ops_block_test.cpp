// All composites in a model's order: mixed precision against float64, and allocations that are
// filled with NaN.

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/ops_composites.h"
#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

// The composites of one block, forward and backward.
struct Block {
  Ops& ops;
  AttentionShape shape;
  Parameter norm, qkv, swiglu, linear;
  Tensor rope;

  struct Result {
    std::vector<Array> forward;
    std::vector<Array> backward;
  };
  Result run(const Array& x, const Array& branch, const StepState& state) const {
    Saved s1, s2, s3, s4, s5, s6;
    const Array residual = ops.add_rms_norm(s1, x, branch, norm).residual;
    const Array normed = ops.add_rms_norm(s1, x, branch, norm).normed;
    const Array rotated = ops.qkv_rope(s2, normed, qkv, rope, shape);
    const Array y = ops.attention(s3, rotated, shape);
    const Array z = ops.swiglu_linear(s4, y, swiglu);
    const Array out = ops.linear(s5, z, linear);
    const Ops::Head head{norm, linear, state, {}};
    ops.head(s6, residual, {}, head);
    Result r{.forward = {residual, normed, y, z, out}, .backward = {}};
    const Array d_head = ops.head_backward(s6, head);
    const Array dz = ops.linear_backward(s5, out, linear);
    const Array dy = ops.swiglu_linear_backward(s4, dz, swiglu);
    const Array dqkv = ops.attention_backward(s3, dy, shape);
    const Array d_normed = ops.qkv_rope_backward(s2, dqkv, qkv, rope);
    const Array dx = ops.add_rms_norm_backward(s1, d_head, d_normed, norm);
    r.backward = {d_head, dz, dy, d_normed, dx};
    return r;
  }
};

class MixedPrecision : public Composites {};

// Every composite in fp32, bf16 and fp16 against float64 from the same rounded inputs: dtypes are
// those of torch.autocast, errors are within rounding.
TEST_F(MixedPrecision, follows_float64_within_its_roundings) {
  const AttentionShape s{2, 17, 2, 8};
  constexpr std::int64_t width = 16;
  for (const auto* name : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(name);
    const auto low = make_ops(name);
    const Precision& p = low->precision();
    const Weights norm = weights({width}, p);
    const Weights qkv = weights({3 * width, width}, p, 0.25);
    const Weights swiglu = weights({2 * width, width}, p, 0.25);
    const Weights linear = weights({width, width}, p, 0.25);
    const Weights wide_norm = widened(norm, false);
    // Norms read the master weights.
    if (p.mixed()) set(norm.compute, std::vector<double>(width, std::nan("")));
    const Weights wide_qkv = widened(qkv, true);
    const Weights wide_swiglu = widened(swiglu, true);
    const Weights wide_linear = widened(linear, true);
    const Array x = random({2, 17, width}, p.residual);
    const Array branch = random({2, 17, width}, p.compute);
    const Array table = rope_table(17, 8, p.statistics);
    const StepState state = state_with_targets({2, 17, width}, width, p.loss, p.loss_scaling);
    StepState wide_state = state_with_targets({2, 17, width}, width, Dtype::f64, p.loss_scaling);
    wide_state.targets = state.targets;
    // The gradient of the head carries the loss scale; 65536 / 34 is too large a sum for this.
    state.set(device, StepScalar::loss_scale, 16);
    wide_state.set(device, StepScalar::loss_scale, 16);

    const Block low_block{
        *low, s, norm.parameter(), qkv.parameter(), swiglu.parameter(), linear.parameter(), table};
    const Array wide_table = copy_of(table, Dtype::f64);
    const Block wide_block{*ops,
                           s,
                           wide_norm.parameter(),
                           wide_qkv.parameter(),
                           wide_swiglu.parameter(),
                           wide_linear.parameter(),
                           wide_table};
    const Block::Result got = low_block.run(x, branch, state);
    const Block::Result want =
        wide_block.run(copy_of(x, Dtype::f64), copy_of(branch, Dtype::f64), wide_state);

    const double factor = tolerance(p.compute) / tolerance(p.residual);
    const auto compare = [&](const Array& a, const Array& b, int what) {
      SCOPED_TRACE(what);
      expect_close(a, values(b), a.dtype() == p.compute ? 8 : 8 * factor);
    };
    for (std::size_t i = 0; i < got.forward.size(); ++i) {
      EXPECT_EQ(got.forward[i].dtype(), i == 0 ? p.residual : p.compute) << i;
      EXPECT_EQ(got.backward[i].dtype(), i == 0 || i == 4 ? p.residual : p.compute) << i;
      compare(got.forward[i], want.forward[i], static_cast<int>(i));
      compare(got.backward[i], want.backward[i], 10 + static_cast<int>(i));
    }
    compare(norm.gradient, wide_norm.gradient, 20);
    compare(qkv.gradient, wide_qkv.gradient, 21);
    compare(swiglu.gradient, wide_swiglu.gradient, 22);
    compare(linear.gradient, wide_linear.gradient, 23);
    compare(state.loss, wide_state.loss, 24);
  }
}

TEST_F(MixedPrecision, gradients_of_another_dtype_are_cast_to_the_compute_dtype) {
  const auto low = make_ops("bf16");
  const Weights w = weights({8, 8}, low->precision());
  const Array x = random({2, 3, 8}, Dtype::f32);
  const Array dy = random({2, 3, 8}, Dtype::f32);
  const auto backward = [&](const Array& gradient) {
    Saved saved;
    (void)low->linear(saved, x, w.parameter());
    return low->linear_backward(saved, gradient, w.parameter());
  };
  const Array dx = backward(dy);
  EXPECT_EQ(dx.dtype(), Dtype::bf16);
  expect_close(dx, values(backward(copy_of(dy, Dtype::bf16))), 0);
}

class Memory : public Composites {
 protected:
  // Fills every block that the allocator keeps, of the sizes used while recording, with NaN.
  void poison_kept(const std::vector<MemoryEvent>& events) {
    std::vector<Array> blocks;
    blocks.reserve(events.size());
    for (const MemoryEvent& e : events) {
      if (e.bytes > 0) blocks.push_back(poisoned({e.bytes / 4}, Dtype::f32));
    }
  }
};

TEST_F(Memory, backward_needs_no_more_than_what_forward_kept) {
  constexpr std::int64_t width = 256;
  const Shape shape = {1, 4, width};
  const Weights norm = weights({width});
  const Weights linear = weights({width, width});
  const Weights swiglu = weights({2 * width, width});
  const auto expect_no_growth = [&](const auto& forward, const auto& backward) {
    Saved saved;
    Array dy = forward(saved);
    const std::size_t before = device.ledger().bytes();
    device.ledger().reset_peak();
    const Array dx = backward(saved, std::move(dy));
    EXPECT_LE(device.ledger().peak(), before);
  };
  expect_no_growth([&](Saved& s) { return ops->linear(s, f64(shape), linear.parameter()); },
                   [&](Saved& s, Array dy) {
                     return ops->linear_backward(s, std::move(dy), linear.parameter());
                   });
  expect_no_growth([&](Saved& s) { return ops->swiglu_linear(s, f64(shape), swiglu.parameter()); },
                   [&](Saved& s, Array dz) {
                     return ops->swiglu_linear_backward(s, std::move(dz), swiglu.parameter());
                   });
  const StepState state = state_with_targets(shape, width, Dtype::f64, false);
  const Parameter norm_parameter = norm.parameter();
  const Parameter linear_parameter = linear.parameter();
  const Ops::Head head{norm_parameter, linear_parameter, state, {}};
  expect_no_growth(
      [&](Saved& s) {
        ops->head(s, f64(shape), {}, head);
        return Array();
      },
      [&](Saved& s, const Array&) { return ops->head_backward(s, head); });
}

TEST_F(Memory, add_rms_norm_frees_its_inputs_before_it_normalises) {
  const Shape shape = {1, 4, 256};
  const Weights norm = weights({256});
  Array x = f64(shape);
  Array branch = f64(shape);
  const std::size_t size = x.tensor().bytes();
  const std::size_t before = device.ledger().bytes();
  device.ledger().reset_peak();
  Saved saved;
  const auto kept = ops->add_rms_norm(saved, std::move(x), std::move(branch), norm.parameter());
  EXPECT_EQ(device.ledger().peak(), before + size);
}

TEST_F(Memory, composites_do_not_read_what_they_allocate) {
  const AttentionShape s{2, 17, 2, 8};
  constexpr std::int64_t width = 16;
  for (const auto* name : {"fp32", "bf16"}) {
    const auto low = make_ops(name);
    const Precision& p = low->precision();
    const Weights norm = weights({width}, p);
    const Weights qkv = weights({3 * width, width}, p);
    const Weights swiglu = weights({2 * width, width}, p);
    const Weights linear = weights({width, width}, p);
    const Array x = random({2, 17, width}, p.residual);
    const Array branch = random({2, 17, width}, p.compute);
    const Array table = rope_table(17, 8, p.statistics);
    const StepState state = state_with_targets({2, 17, width}, width, p.loss, false);
    const Block block{
        *low, s, norm.parameter(), qkv.parameter(), swiglu.parameter(), linear.parameter(), table};
    const auto numbers = [&] {
      const Block::Result r = block.run(x, branch, state);
      std::vector<double> all;
      const auto append = [&](const Tensor& t) {
        const std::vector<double> v = values(t);
        all.insert(all.end(), v.begin(), v.end());
      };
      for (const Array& a : r.forward) append(a);
      for (const Array& a : r.backward) append(a);
      for (const Weights& w : {norm, qkv, swiglu, linear}) append(w.gradient);
      return all;
    };
    device.ledger().start_recording();
    const auto first = numbers();
    poison_kept(device.ledger().stop_recording());
    device.freeze();  // only blocks filled with NaN from here on
    EXPECT_EQ(numbers(), first) << name;
    device.trim();
  }
}

class Threads : public OpsTest {
 protected:
  // Results of all operations that sum, with the OpenMP and BLAS threads of the most recently
  // constructed device.
  std::vector<std::vector<double>> results(Ops& o, Dtype d) {
    constexpr std::int64_t rows = 129;
    constexpr std::int64_t cols = 131;
    const Shape shape = {rows, cols};
    streams = 0;
    const Array x = random(shape, d);
    const Array dy = random(shape, d);
    const Array w = random({cols}, Dtype::f32);
    const Array y = random(shape, d);
    const Array rstd = random({rows}, Dtype::f32);
    const Array dw = random({cols}, Dtype::f32);
    const Array loss = random({1}, Dtype::f32);
    const Array targets = random_integers({rows}, cols);
    const Array table = random({200, cols}, Dtype::f32);
    std::vector<std::vector<double>> all;
    const auto keep = [&](std::initializer_list<Tensor> tensors) {
      for (const Tensor& t : tensors) all.push_back(values(t));
    };
    o.rms_norm(y, rstd, x, w, 1e-5);
    keep({y, rstd});
    o.rms_norm_backward(y, {}, dw, dy, x, w, rstd, true);
    keep({y, dw});
    o.softmax(y, x);
    o.softmax_backward(dy, dy, y);
    keep({y, dy});
    o.cross_entropy(loss, rstd, x, targets);
    keep({loss, rstd});
    o.embedding_backward(table, x, targets, true);
    keep({table});
    o.weighted_sum_backward(y, dw, rstd, x, w);
    keep({y, dw});

    const AttentionShape s{2, 133, 4, 8};
    const Array qkv = random({2, 133, 3, 4, 8}, d);
    const Array d_heads = random({2, 133, 32}, d);
    OpsConfig config = o.config();
    for (const AttentionKind kind : {AttentionKind::naive, AttentionKind::flash}) {
      config.attention = kind;
      const auto attending = o.device().make_ops(config);
      Saved saved;
      keep({attending->attention(saved, qkv, s)});
      keep({attending->attention_backward(saved, d_heads, s)});
    }
    return all;
  }
};

TEST_F(Threads, change_no_bit) {
  for (const auto* name : {"fp32", "bf16"}) {
    std::vector<std::vector<std::vector<double>>> all;
    for (const int count : {1, 2, 3}) {
      CpuDevice other(plenty, count);
      all.push_back(results(*other.make_ops({.precision = precision_named(name)}),
                            precision_named(name).compute));
    }
    EXPECT_EQ(all[0], all[1]) << name;
    EXPECT_EQ(all[0], all[2]) << name;
  }
}

}  // namespace
}  // namespace paceline
