// Every primitive of CudaEagerOps but attention's against the CPU oracle, at odd sizes.

#include "tests/gpu/oracle.h"

namespace paceline {
namespace {

TEST_P(Oracle, Elementwise) {
  for (const std::int64_t n : {1, 3, 127, 129, 4096, 100003}) {
    check("cast down", {out(low, {n}), in(full, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.cast(t[0], t[1]); });
    check("cast up", {out(full, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.cast(t[0], t[1]); });
    check("fill", {out(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.fill(t[0], 1.5); });
    check("fill normal", {out(low, {n})}, [](Ops& o, const StepState&, const Tensors& t) {
      o.fill_normal(t[0], Random(3, 1), TruncatedNormal(0.5, 1.5));
    });
    check("add", {out(full, {n}), in(full, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.add(t[0], t[1], t[2]); });
    check("add in place", {inout(low, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.add(t[0], t[0], t[1]); });
    check("scale", {inout(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.scale(t[0], 0.125); });
    check("relu", {out(low, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.relu(t[0], t[1]); });
    check("relu backward", {out(low, {n}), in(low, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.relu_backward(t[0], t[1], t[2]); });
    check("sgd", {inout(full, {n}), in(full, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.sgd(t[0], t[1], 0.1); });
    for (const Reduction r : {Reduction::mean, Reduction::sum}) {
      check("squared error", {out(full, {1}), in(low, {n}), in(low, {n})},
            [r](Ops& o, const StepState&, const Tensors& t) {
              o.squared_error(t[0], t[1], t[2], r);
            });
      check("squared error backward", {out(low, {n}), in(low, {n}), in(low, {n})},
            [r](Ops& o, const StepState&, const Tensors& t) {
              o.squared_error_backward(t[0], t[1], t[2], r);
            });
    }
  }
}

TEST_P(Oracle, SwigluAndBias) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t n : cols) {
      check("swiglu", {out(low, {r, n}), in(low, {r, 2 * n})},
            [](Ops& o, const StepState&, const Tensors& t) { o.swiglu(t[0], t[1]); });
      check(
          "swiglu backward", {out(low, {r, 2 * n}), in(low, {r, n}), in(low, {r, 2 * n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.swiglu_backward(t[0], t[1], t[2]); });
      check(
          "swiglu backward in place", {inout(low, {r, 2 * n}), in(low, {r, n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.swiglu_backward(t[0], t[1], t[0]); });
      check("add bias", {inout(low, {r, n}), in(low, {n})},
            [](Ops& o, const StepState&, const Tensors& t) { o.add_bias(t[0], t[1]); });
      for (const bool accumulate : {false, true}) {
        check("bias backward", {sum({n}, accumulate), in(low, {r, n})},
              [accumulate](Ops& o, const StepState&, const Tensors& t) {
                o.bias_backward(t[0], t[1], accumulate);
              });
      }
      check("weighted sum", {sum({r}, false), in(low, {r, n}), in(low, {n})},
            [](Ops& o, const StepState&, const Tensors& t) { o.weighted_sum(t[0], t[1], t[2]); });
      check("weighted sum backward",
            {out(low, {r, n}), sum({n}, false), in(full, {r}), in(low, {r, n}), in(low, {n})},
            [](Ops& o, const StepState&, const Tensors& t) {
              o.weighted_sum_backward(t[0], t[1], t[2], t[3], t[4]);
            });
    }
  }
}

TEST_P(Oracle, Norms) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t n : cols) {
      check("rms norm", {out(low, {r, n}), out(full, {r}), in(full, {r, n}), in(full, {n})},
            [](Ops& o, const StepState&, const Tensors& t) {
              o.rms_norm(t[0], t[1], t[2], t[3], 1e-5);
            });
      for (const bool accumulate : {false, true}) {
        check("rms norm backward",
              {out(full, {r, n}), in(full, {r, n}), sum({n}, accumulate), in(low, {r, n}),
               in(full, {r, n}), in(full, {n}), in(full, {r})},
              [accumulate](Ops& o, const StepState&, const Tensors& t) {
                o.rms_norm_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], accumulate);
              });
        check("rms norm backward in place",
              {inout(full, {r, n}), sum({n}, accumulate), in(low, {r, n}), in(full, {r, n}),
               in(full, {n}), in(full, {r})},
              [accumulate](Ops& o, const StepState&, const Tensors& t) {
                o.rms_norm_backward(t[0], t[0], t[1], t[2], t[3], t[4], t[5], accumulate);
              });
        check("layer norm backward",
              {out(low, {r, n}), sum({n}, accumulate), sum({n}, accumulate), in(low, {r, n}),
               in(low, {r, n}), in(full, {n}), in(full, {r}), in(full, {r})},
              [accumulate](Ops& o, const StepState&, const Tensors& t) {
                o.layer_norm_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], accumulate);
              });
      }
      if (n > 1) {
        check("layer norm",
              {out(low, {r, n}), out(full, {r}), out(full, {r}), in(low, {r, n}), in(full, {n}),
               in(full, {n})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.layer_norm(t[0], t[1], t[2], t[3], t[4], t[5], 1e-5);
              });
      }
    }
  }
}

TEST_P(Oracle, EmbeddingAndLoss) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t d : cols) {
      check("embedding", {out(full, {r, d}), ids(r, 50), in(full, {50, d})},
            [](Ops& o, const StepState&, const Tensors& t) { o.embedding(t[0], t[1], t[2]); });
      for (const bool accumulate : {false, true}) {
        check(
            "embedding backward",
            {accumulate ? inout(full, {50, d}) : out(full, {50, d}), in(full, {r, d}), ids(r, 50)},
            [accumulate](Ops& o, const StepState&, const Tensors& t) {
              o.embedding_backward(t[0], t[1], t[2], accumulate);
            });
      }
    }
    for (const std::int64_t v : {2, 131, 10000, 50257}) {
      check("cross entropy", {out(full, {1}), out(full, {r}), in(low, {r, v}), ids(r, v)},
            [](Ops& o, const StepState&, const Tensors& t) {
              o.cross_entropy(t[0], t[1], t[2], t[3]);
            });
      check("cross entropy backward",
            {out(low, {r, v}), out(full, {1}), out(full, {r}), in(low, {r, v}), ids(r, v)},
            [](Ops& o, const StepState& s, const Tensors& t) {
              o.cross_entropy(t[1], t[2], t[3], t[4]);
              o.cross_entropy_backward(t[0], t[3], t[2], t[4], s);
            });
    }
  }
}

TEST_P(Oracle, Matmul) {
  for (const std::int64_t m : {1, 3, 129}) {
    for (const std::int64_t k : {1, 5, 131, 256}) {
      for (const std::int64_t n : {1, 64, 127}) {
        check("x w^T", {out(low, {m, n}), in(low, {m, k}), in(low, {n, k})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.matmul(Matrix(t[0]), Matrix(t[1]), Matrix(t[2]).transpose());
              });
        check("dy w", {out(low, {m, n}), in(low, {m, k}), in(low, {k, n})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.matmul(Matrix(t[0]), Matrix(t[1]), Matrix(t[2]));
              });
        check("dy^T x", {out(low, {m, n}), in(low, {k, m}), in(low, {k, n})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.matmul(Matrix(t[0]), Matrix(t[1]).transpose(), Matrix(t[2]));
              });
        check("dy^T x, added", {inout(full, {m, n}), in(low, {k, m}), in(low, {k, n})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.matmul(Matrix(t[0]), Matrix(t[1]).transpose(), Matrix(t[2]), 0.5, 1);
              });
      }
    }
  }
  // The heads of packed q, k, v: two batch dimensions and strides.
  for (const std::int64_t d : {2, 16, 64, 80}) {
    const std::int64_t B = 2;
    const std::int64_t T = 33;
    const std::int64_t H = 3;
    check("scores", {out(low, {B, H, T, T}), in(low, {B, T, 3, H, d})},
          [=](Ops& o, const StepState&, const Tensors& t) {
            const auto part = [&](std::int64_t which) {
              Matrix x;
              x.tensor = t[1].slice(which * H * d, {t[1].numel() - which * H * d});
              x.rows = T;
              x.cols = d;
              x.row_stride = 3 * H * d;
              x.batch = {B, H};
              x.batch_stride = {T * 3 * H * d, d};
              return x;
            };
            Matrix scores;
            scores.tensor = t[0];
            scores.rows = scores.cols = scores.row_stride = T;
            scores.batch = {B, H};
            scores.batch_stride = {H * T * T, T * T};
            o.matmul(scores, part(0), part(1).transpose());
          });
  }
}

// A weight's gradient in a half type is the float32 sum, which is exact here, rounded once: also
// where k is long enough for cuBLASLt to split it.
TEST_P(Oracle, ProductsAreRoundedOnce) {
  if (precision.compute == Dtype::f32) GTEST_SKIP() << "nothing is rounded";
  constexpr std::int64_t m = 64;
  constexpr std::int64_t n = 128;
  for (const std::int64_t k : {64, 2048, 65536}) {
    const auto whole_numbers = [&](std::int64_t width) {
      std::vector<std::int32_t> drawn(static_cast<std::size_t>(k * width));
      Random(11, streams++).fill_integers(drawn, 9);
      std::vector<double> values(drawn.begin(), drawn.end());
      for (double& v : values) v -= 4;
      return write(*gpu, *gpu_ops, {k, width}, precision.compute, values);
    };
    const Array dy = whole_numbers(m);
    const Array x = whole_numbers(n);
    const auto product = [&](Dtype dtype) {
      Array dw = gpu->allocate({m, n}, dtype, MemoryKind::workspace);
      gpu_ops->matmul(Matrix(dw), Matrix(dy).transpose(), Matrix(x));
      return dw;
    };
    const Array rounded = gpu->allocate({m, n}, precision.compute, MemoryKind::workspace);
    gpu_ops->cast(rounded, product(Dtype::f32));
    EXPECT_EQ(read(*gpu, *gpu_ops, product(precision.compute)), read(*gpu, *gpu_ops, rounded)) << k;
  }
}

TEST_P(Oracle, AdamW) {
  for (const std::int64_t n : {1, 3, 129, 100003}) {
    check("adamw",
          {inout(full, {n}), in(full, {n}), inout(full, {n}), out(full, {n}), out(low, {n})},
          [](Ops& o, const StepState& s, const Tensors& t) {
            o.fill(t[3], 0.25);  // v is positive
            const bool copies = t[4].dtype != t[0].dtype;
            const AdamWConfig config;
            for (int step = 0; step < 3; ++step) {
              o.begin_optimizer_step(s, config);
              o.adamw({t[0], t[1], t[2], t[3], copies ? t[4] : Tensor{}}, s, config);
              o.end_optimizer_step(s);
            }
            if (!copies) o.cast(t[4], t[0]);
          });
  }
}

// With gradients that were exchanged in the half type, and another group's hyperparameters.
TEST_P(Oracle, AdamWOfExchangedGradients) {
  if (GetParam() == std::string("fp16")) GTEST_SKIP() << "gradients are exchanged as bfloat16";
  for (const std::int64_t n : {1, 3, 129, 100003}) {
    check("adamw of exchanged gradients",
          {inout(full, {n}), in(low, {n}), inout(full, {n}), out(full, {n})},
          [](Ops& o, const StepState& s, const Tensors& t) {
            o.fill(t[3], 0.25);  // v is positive
            const AdamWConfig other{.beta1 = 0.8, .beta2 = 0.95, .rate_factor = 0.5};
            o.begin_optimizer_step(s, {});
            o.begin_parameter_group(s, other);
            o.adamw({t[0], t[1], t[2], t[3], {}}, s, other);
            o.end_optimizer_step(s);
          });
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Oracle, ::testing::Values("fp32", "tf32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
