// Each composite of core/ops.cpp on the CPU's primitives: forward against its definition, backward
// by finite differences in float64, what is kept and freed, and the scopes.

#include "tests/unit/ops_composites.h"

#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace paceline {
namespace {

TEST_F(Composites, embed) {
  const Weights table = weights({11, 4});
  const Array tokens = integers({2, 3}, {10, 0, 3, 3, 0, 3});
  const Array dy = f64({2, 3, 4});
  const auto loss = [&] { return dot(ops->embed(tokens, table.parameter()), dy); };
  EXPECT_EQ(ops->embed(tokens, table.parameter()).shape(), (Shape{2, 3, 4}));
  expect_accumulation(table, [&](const Parameter& p) { ops->embed_backward(dy, tokens, p); });
  expect_gradient(table.value, table.gradient, loss);
}

TEST_F(Composites, add_rms_norm) {
  for (const bool with_branch : {false, true}) {
    for (const Shape& shape : {Shape{1, 1, 5}, Shape{1, 3, 1}, Shape{3, 43, 65}}) {
      SCOPED_TRACE(testing::Message() << shape.str() << " " << with_branch);
      const Weights w = weights({shape[2]});
      const Array x = f64(shape);
      const Array branch = with_branch ? f64(shape) : Array();
      const Array d_residual = f64(shape);
      const Array d_normed = f64(shape);
      Saved saved;
      const auto loss = [&] {
        const auto [residual, normed] = ops->add_rms_norm(saved, x, branch, w.parameter());
        return dot(residual, d_residual) + dot(normed, d_normed);
      };
      Array dx;
      expect_accumulation(w, [&](const Parameter& p) {
        loss();
        dx = ops->add_rms_norm_backward(saved, d_residual, d_normed, p);
      });
      expect_gradient(x, dx, loss);
      if (with_branch) expect_gradient(branch, dx, loss);
      expect_gradient(w.value, w.gradient, loss);

      const Array residual = ops->add_rms_norm(saved, x, branch, w.parameter()).residual;
      EXPECT_EQ(residual.tensor().data == x.tensor().data, !with_branch);
    }
  }
}

TEST_F(Composites, linear) {
  for (const Shape& shape : {Shape{5}, Shape{3, 5}, Shape{2, 3, 5}, Shape{1, 129, 65}}) {
    SCOPED_TRACE(shape.str());
    const Weights w = weights({7, shape[-1]});
    const Array x = f64(shape);
    Saved saved;
    const Array y = ops->linear(saved, x, w.parameter());
    EXPECT_EQ(y.shape()[-1], 7);
    EXPECT_EQ(y.shape().ndim(), shape.ndim());
    const Array dy = f64(y.shape());
    const auto loss = [&] { return dot(ops->linear(saved, x, w.parameter()), dy); };
    Array dx;
    expect_accumulation(w, [&](const Parameter& p) {
      loss();
      dx = ops->linear_backward(saved, dy, p);
    });
    EXPECT_EQ(dx.shape(), shape);
    expect_gradient(x, dx, loss);
    expect_gradient(w.value, w.gradient, loss);
  }
}

TEST_F(Composites, qkv_rope) {
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 2}, AttentionShape{2, 5, 3, 4}, AttentionShape{1, 129, 2, 10}}) {
    const std::int64_t width = s.heads * s.head_dim;
    const Weights w = weights({3 * width, width});
    const Array table = rope_table(s.context, s.head_dim, Dtype::f64);
    const Array x = f64({s.batch, s.context, width});
    const Array dqkv = f64({s.batch, s.context, 3, s.heads, s.head_dim});
    Saved saved;
    const auto loss = [&] { return dot(ops->qkv_rope(saved, x, w.parameter(), table, s), dqkv); };
    Array dx;
    expect_accumulation(w, [&](const Parameter& p) {
      loss();
      dx = ops->qkv_rope_backward(saved, copy_of(dqkv, Dtype::f64), p, table);
    });
    expect_gradient(x, dx, loss);
    expect_gradient(w.value, w.gradient, loss);
  }
}

// softmax(q k^T / sqrt(d)) v over visible positions, by its definition.
std::vector<double> attention_by_definition(const std::vector<double>& qkv,
                                            const AttentionShape& s) {
  const auto at = [&](std::int64_t b, std::int64_t t, int which, std::int64_t h, std::int64_t j) {
    return qkv[static_cast<std::size_t>(
        (((b * s.context + t) * 3 + which) * s.heads + h) * s.head_dim + j)];
  };
  std::vector<double> y;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t t = 0; t < s.context; ++t) {
      const std::int64_t seen = s.causal ? t + 1 : s.context;
      for (std::int64_t h = 0; h < s.heads; ++h) {
        std::vector<double> p;
        double sum = 0;
        for (std::int64_t u = 0; u < seen; ++u) {
          double score = 0;
          for (std::int64_t j = 0; j < s.head_dim; ++j)
            score += at(b, t, 0, h, j) * at(b, u, 1, h, j);
          sum += p.emplace_back(std::exp(score / std::sqrt(static_cast<double>(s.head_dim))));
        }
        for (std::int64_t j = 0; j < s.head_dim; ++j) {
          double out = 0;
          for (std::int64_t u = 0; u < seen; ++u) {
            out += p[static_cast<std::size_t>(u)] / sum * at(b, u, 2, h, j);
          }
          y.push_back(out);
        }
      }
    }
  }
  return y;
}

constexpr std::array<AttentionKind, 3> attention_kinds = {
    AttentionKind::naive, AttentionKind::fused, AttentionKind::flash};

TEST_F(Composites, attention) {
  for (const AttentionKind kind : attention_kinds) {
    ops = device.make_ops({.precision = precision_named("fp64"), .attention = kind});
    for (const AttentionShape& s :
         {AttentionShape{1, 1, 1, 1}, AttentionShape{2, 3, 3, 4}, AttentionShape{1, 127, 1, 3},
          AttentionShape{3, 17, 5, 8}, AttentionShape{2, 65, 3, 4, false}}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ": " << s.batch << " "
                                      << s.context << " " << s.heads << " " << s.causal);
      const Array qkv = f64({s.batch, s.context, 3, s.heads, s.head_dim});
      const Array dy = f64({s.batch, s.context, s.heads * s.head_dim});
      Saved saved;
      expect_close(ops->attention(saved, qkv, s), attention_by_definition(values(qkv), s));
      const Array dqkv = ops->attention_backward(saved, dy, s);
      expect_gradient(qkv, dqkv, [&] { return dot(ops->attention(saved, qkv, s), dy); });
    }
  }
}

TEST_F(Composites, attention_names_its_scopes_and_frees_what_it_does_not_keep) {
  const AttentionShape s{2, 16, 2, 8};
  const Array qkv = f64({2, 16, 3, 2, 8});
  const std::size_t qkv_bytes = qkv.tensor().bytes();
  const std::size_t score_bytes = std::size_t{2} * 2 * 16 * 16 * 8;
  const std::size_t y_bytes = qkv_bytes / 3;
  Saved saved;
  device.ledger().start_recording();
  const Scope scope(device.scopes(), "block 3");
  Array y = ops->attention(saved, qkv, s);
  const std::size_t before = device.ledger().bytes();
  Array dqkv = ops->attention_backward(saved, f64({2, 16, 16}), s);
  std::map<std::string, std::size_t> bytes;  // allocated, per scope
  for (const MemoryEvent& e : device.ledger().stop_recording()) {
    if (e.bytes > 0) bytes[e.scope] += static_cast<std::size_t>(e.bytes);
  }
  const std::string attention = "block 3/scaled dot product attention";
  EXPECT_EQ(bytes[attention + "/computing attention scores"], score_bytes);
  EXPECT_EQ(bytes[attention + "/final matmul"], y_bytes + score_bytes);
  EXPECT_EQ(bytes[attention], qkv_bytes);  // of backward
  EXPECT_EQ(device.scopes().path(), "block 3");
  // P was freed and dqkv allocated; the caller holds qkv.
  EXPECT_EQ(device.ledger().bytes(), before - score_bytes + qkv_bytes);
}

TEST_F(Composites, swiglu_linear) {
  for (const Shape& shape : {Shape{1, 1, 3}, Shape{2, 3, 5}, Shape{1, 127, 33}}) {
    SCOPED_TRACE(shape.str());
    constexpr std::int64_t width = 6;
    const Weights w = weights({2 * width, shape[2]});
    const Array x = f64(shape);
    const Array dz = f64({shape[0], shape[1], width});
    Saved saved;
    const Array z = ops->swiglu_linear(saved, x, w.parameter());
    EXPECT_EQ(z.shape(), dz.shape());
    const std::vector<double> xv = values(x);
    const std::vector<double> wv = values(w.value);
    std::vector<double> want;
    const auto in = static_cast<std::size_t>(shape[2]);
    for (std::size_t r = 0; r < xv.size(); r += in) {
      const auto product = [&](std::size_t row) {
        return std::inner_product(wv.begin() + static_cast<std::ptrdiff_t>(row * in),
                                  wv.begin() + static_cast<std::ptrdiff_t>((row + 1) * in),
                                  xv.begin() + static_cast<std::ptrdiff_t>(r), 0.0);
      };
      for (std::size_t j = 0; j < width; ++j) {
        const double gate = product(j);
        want.push_back(gate / (1 + std::exp(-gate)) * product(width + j));
      }
    }
    expect_close(z, want, 1, 10);

    const auto loss = [&] { return dot(ops->swiglu_linear(saved, x, w.parameter()), dz); };
    Array dx;
    expect_accumulation(w, [&](const Parameter& p) {
      loss();
      dx = ops->swiglu_linear_backward(saved, dz, p);
    });
    expect_gradient(x, dx, loss);
    expect_gradient(w.value, w.gradient, loss);
  }
}
TEST_F(Composites, head_loss_logits_and_gradients) {
  for (const bool with_branch : {false, true}) {
    for (const Shape& shape : {Shape{1, 1, 3}, Shape{2, 3, 5}, Shape{1, 129, 16}}) {
      SCOPED_TRACE(testing::Message() << shape.str() << " " << with_branch);
      constexpr std::int32_t vocabulary = 67;
      const Weights norm = weights({shape[2]});
      const Weights linear = weights({vocabulary, shape[2]});
      const StepState state = state_with_targets(shape, vocabulary, Dtype::f64, false);
      const Array logits = poisoned({shape[0], shape[1], vocabulary}, Dtype::f32);
      const Array x = f64(shape);
      const Array branch = with_branch ? f64(shape) : Array();
      Saved saved;
      const Parameter norm_parameter = norm.parameter();
      const Parameter linear_parameter = linear.parameter();
      const Ops::Head head{norm_parameter, linear_parameter, state, {}};
      const auto loss = [&] {
        ops->head(saved, x, branch, head);
        return values(state.loss)[0];
      };
      const double value = loss();
      const Array dx = ops->head_backward(saved, head);
      expect_gradient(x, dx, loss);
      if (with_branch) expect_gradient(branch, dx, loss);
      expect_gradient(norm.value, norm.gradient, loss);
      expect_gradient(linear.value, linear.gradient, loss);

      // In inference too, with the logits.
      Saved none(false);
      set(state.loss, {-1});
      ops->head(none, x, branch, {norm_parameter, linear_parameter, state, logits});
      EXPECT_EQ(values(state.loss)[0], value);
      EXPECT_TRUE(none.take().empty());
      double by_logits = 0;
      const std::vector<double> l = values(logits);
      for (std::size_t r = 0; r < l.size(); r += vocabulary) {
        double sum = 0;
        for (std::size_t j = 0; j < vocabulary; ++j) sum += std::exp(l[r + j]);
        const auto target =
            static_cast<std::size_t>(state.targets.tensor().as<std::int32_t>()[r / vocabulary]);
        by_logits += std::log(sum) - l[r + target];
      }
      EXPECT_NEAR(value, by_logits * vocabulary / static_cast<double>(l.size()), 1e-5);
    }
  }
}

TEST_F(Composites, head_gradients_accumulate) {
  const Weights norm = weights({5});
  const Weights linear = weights({9, 5});
  const StepState state = state_with_targets({2, 3, 5}, 9, Dtype::f64, false);
  const Array x = f64({2, 3, 5});
  const auto run = [&](const Parameter& n, const Parameter& l) {
    Saved saved;
    const Ops::Head head{n, l, state, {}};
    ops->head(saved, x, {}, head);
    (void)ops->head_backward(saved, head);
  };
  expect_accumulation(linear, [&](const Parameter& p) { run(norm.parameter(), p); });
  expect_accumulation(norm, [&](const Parameter& p) { run(p, linear.parameter()); });
}

}  // namespace
}  // namespace paceline
