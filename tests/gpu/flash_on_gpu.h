#pragma once
// Shared by the tests of flash attention on the GPU. Results in every arithmetic are compared with
// the CPU oracle in float64 on the same rounded inputs, as a whole and element by element. Inputs
// are views of packed qkv; outputs and workspace are poisoned.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>

#include "cuda/attention/flash.h"
#include "cuda/attention/hopper/sm90_forward.h"
#include "cuda/cuda_backend.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/current_device.h"
#include "tests/oracle/flash_tolerances.h"
#include "tests/oracle/oracle.h"

namespace paceline {

struct Arithmetic {
  const char* name;
  const char* precision;
  Fp32Attention fp32;
  double tolerance;  // for the relative L2 distance
  double logsumexp_tolerance;
  FlashKernels kernels = FlashKernels::newest;
};
inline constexpr std::array<Arithmetic, 8> arithmetics = {
    {{"bf16", "bf16", Fp32Attention::bf16x3, 5e-3, 1e-5},
     {"fp16", "fp16", Fp32Attention::bf16x3, 1e-3, 1e-5},
     {"bf16_sm80", "bf16", Fp32Attention::bf16x3, 5e-3, 1e-5, FlashKernels::sm80},
     {"fp16_sm80", "fp16", Fp32Attention::bf16x3, 1e-3, 1e-5, FlashKernels::sm80},
     {"tf32", "fp32", Fp32Attention::tf32, 1e-3, 2e-3},
     {"bf16x3", "fp32", Fp32Attention::bf16x3, 2e-5, 5e-5},
     {"bf16x3_sm80", "fp32", Fp32Attention::bf16x3, 2e-5, 5e-5, FlashKernels::sm80},
     {"exact", "fp32", Fp32Attention::exact, 2e-6, 1e-5}}};

using Values = std::vector<double>;

// dqkv [B, T, 3, H, d], o [B, T, H, d], logsumexp [B, H, T]
struct Result {
  Values o, logsumexp, dqkv;
};

class FlashOnGpu : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    gpu = make_cuda_device(0, std::nullopt, 1);
    gpu_ops = gpu->make_ops({.precision = precision_named(GetParam().precision)});
    cpu_ops = cpu.make_ops({.precision = precision_named("fp64")});
  }

  struct Inputs {
    Array qkv;  // [B, T, 3, H, d]
    Array d_o;  // [B, T, H, d]
  };
  static Shape packed(const FlashShape& s) { return {s.batch, s.context, 3, s.heads, s.head_dim}; }
  static Shape plain(const FlashShape& s) { return {s.batch, s.context, s.heads, s.head_dim}; }
  static Shape rows(const FlashShape& s) { return {s.batch, s.heads, s.context}; }

  Inputs inputs(const FlashShape& s) {
    const auto normal = [&](const Shape& shape) {
      std::vector<float> drawn(static_cast<std::size_t>(shape.numel()));
      Random(5, streams++).fill_normal(drawn);
      return write(*gpu, *gpu_ops, shape, s.dtype, {drawn.begin(), drawn.end()});
    };
    Array qkv = normal(packed(s));
    return {qkv, normal(plain(s))};
  }
  // Synchronises first: the device's stream may still read memory that an upload used before.
  Array poisoned(const Shape& shape, Dtype dtype) {
    gpu->synchronize();
    Array x = gpu->allocate(shape, dtype, MemoryKind::workspace);
    poison(x);
    return x;
  }
  static void poison(const Array& x) {
    CUDA_CHECK(cudaMemset(x.tensor().data, 0xff, x.tensor().bytes()));
  }
  Array poisoned_workspace(const FlashShape& s, FlashPass pass) {
    const auto bytes = static_cast<std::int64_t>(flash_workspace_bytes(s, pass));
    return poisoned({bytes / 4 + 1}, Dtype::f32);
  }
  static FlashHeads pointers(const Heads& x) {
    return {x.tensor.data, x.batch_stride, x.row_stride, x.head_stride};
  }

  // Poisoned memory for everything that a call writes.
  struct Outputs {
    Array dqkv, o, logsumexp, forward_space, backward_space;
  };
  Outputs outputs(const FlashShape& s) {
    Outputs out{poisoned(packed(s), s.dtype), poisoned(plain(s), s.dtype),
                poisoned(rows(s), Dtype::f32), poisoned_workspace(s, FlashPass::forward),
                poisoned_workspace(s, FlashPass::backward)};
    CUDA_CHECK(cudaDeviceSynchronize());
    return out;
  }
  static void poison(const Outputs& out) {
    for (const Array* x :
         {&out.dqkv, &out.o, &out.logsumexp, &out.forward_space, &out.backward_space}) {
      poison(*x);
    }
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  static void enqueue_forward(const FlashShape& s, const Inputs& in, const Outputs& out,
                              cudaStream_t stream) {
    const QkvHeads x(in.qkv);
    flash_forward({.shape = s,
                   .scale = scale_of(s),
                   .q = pointers(x.q),
                   .k = pointers(x.k),
                   .v = pointers(x.v),
                   .o = pointers(Heads(out.o)),
                   .logsumexp = out.logsumexp.tensor().as<float>(),
                   .workspace = out.forward_space.tensor().data,
                   .stream = stream});
  }
  static void enqueue(const FlashShape& s, const Inputs& in, const Outputs& out,
                      cudaStream_t stream) {
    enqueue_forward(s, in, out, stream);
    const QkvHeads x(in.qkv);
    const QkvHeads dx(out.dqkv);
    flash_backward({.shape = s,
                    .scale = scale_of(s),
                    .q = pointers(x.q),
                    .k = pointers(x.k),
                    .v = pointers(x.v),
                    .o = pointers(Heads(out.o)),
                    .d_o = pointers(Heads(in.d_o)),
                    .logsumexp = out.logsumexp.tensor().as<float>(),
                    .dq = pointers(dx.q),
                    .dk = pointers(dx.k),
                    .dv = pointers(dx.v),
                    .workspace = out.backward_space.tensor().data,
                    .stream = stream});
  }
  Result result(const Outputs& out) {
    CUDA_CHECK(cudaDeviceSynchronize());
    return {read(*gpu, *gpu_ops, out.o), read(*gpu, *gpu_ops, out.logsumexp),
            read(*gpu, *gpu_ops, out.dqkv)};
  }
  Result run(const FlashShape& s, const Inputs& in) {
    const Outputs out = outputs(s);
    enqueue(s, in, out, nullptr);
    return result(out);
  }
  Result run_forward(const FlashShape& s, const Inputs& in) {
    const Outputs out = outputs(s);
    enqueue_forward(s, in, out, nullptr);
    return result(out);
  }

  Inputs halved(const FlashShape& s) {
    Inputs in = inputs(s);
    Values qkv = read(*gpu, *gpu_ops, in.qkv);
    for (double& x : qkv) x /= 2;
    in.qkv = write(*gpu, *gpu_ops, packed(s), s.dtype, qkv);
    return in;
  }

  // Inputs for which the scores of every third row with the n-th 64 keys, counted from the last,
  // are raised by higher(n). The raise is in the last dimension, so that the products of the other
  // dimensions are not added to a large sum.
  template <class Higher>
  Inputs rising(const FlashShape& s, Higher&& higher) {
    Inputs in = inputs(s);
    Values qkv = read(*gpu, *gpu_ops, in.qkv);
    const double unit = std::sqrt(static_cast<double>(s.head_dim)) / 16;  // a score higher by 1
    const auto last_of = [&](std::int64_t position, int which, std::int64_t head) -> double& {
      const auto row = (position * 3 + which) * s.heads + head;
      return qkv.at(static_cast<std::size_t>((row + 1) * s.head_dim - 1));
    };
    for (std::int64_t position = 0; position < s.context; ++position) {
      const auto block = static_cast<std::size_t>((s.context - 1 - position) / 64);
      for (std::int64_t head = 0; head < s.heads; ++head) {
        last_of(position, 0, head) = position % 3 == 0 ? 16 : 0;
        last_of(position, 1, head) = std::round(4 * unit * higher(block)) / 4;
      }
    }
    in.qkv = write(*gpu, *gpu_ops, packed(s), s.dtype, qkv);
    return in;
  }

  // The oracle's result; without gradients if the last pass is the forward pass.
  Result expected(const FlashShape& s, const Inputs& in, FlashPass last = FlashPass::backward) {
    const auto wide = [&](const Array& x, const Shape& shape) {
      return write(cpu, *cpu_ops, shape, Dtype::f64, read(*gpu, *gpu_ops, x));
    };
    const Array qkv = wide(in.qkv, packed(s));
    const Array d_o = wide(in.d_o, plain(s));
    const Array dqkv = cpu.allocate(packed(s), Dtype::f64, MemoryKind::workspace);
    const Array o = cpu.allocate(plain(s), Dtype::f64, MemoryKind::workspace);
    const Array logsumexp = cpu.allocate(rows(s), Dtype::f64, MemoryKind::workspace);
    const QkvHeads x(qkv);
    const QkvHeads dx(dqkv);
    const ScoreOptions scores{.scale = scale_of(s), .causal = s.causal};
    cpu_ops->flash_attention(Heads(o), logsumexp, x.q, x.k, x.v, scores);
    if (last == FlashPass::backward) {
      cpu_ops->flash_attention_backward(dx.q, dx.k, dx.v, Heads(d_o), x.q, x.k, x.v, Heads(o),
                                        logsumexp, scores);
    }
    return {read(cpu, *cpu_ops, o), read(cpu, *cpu_ops, logsumexp), read(cpu, *cpu_ops, dqkv)};
  }

  static float scale_of(const FlashShape& s) {
    return 1 / std::sqrt(static_cast<float>(s.head_dim));
  }
  // The gradient of q, k or v from packed gradients.
  static Values part(const FlashShape& s, const Values& dqkv, std::size_t which) {
    const auto width = static_cast<std::size_t>(s.heads * s.head_dim);
    Values out;
    for (std::size_t row = which * width; row < dqkv.size(); row += 3 * width) {
      const auto begin = dqkv.begin() + static_cast<std::ptrdiff_t>(row);
      out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    return out;
  }
  // ||got - want|| / max(||want||, the norm of as many random terms of weight 1 / T). The second
  // term matters at length 1, where dQ and dK vanish.
  static double error(const FlashShape& s, const Values& got, const Values& want) {
    return distance(got, want, 1 / std::sqrt(static_cast<double>(s.context)));
  }

  static std::string describe(const FlashShape& s) {
    return fmt::format("{} B {} T {} H {} d {}{}{}", GetParam().name, s.batch, s.context, s.heads,
                       s.head_dim, s.causal ? " causal" : "",
                       s.deterministic ? " deterministic" : "");
  }
  void check(const FlashShape& s) {
    SCOPED_TRACE(describe(s));
    const Inputs in = inputs(s);
    compare(s, run(s, in), expected(s, in));
  }
  static double roundoff() {
    return flash_roundoff(precision_named(GetParam().precision).compute, GetParam().fp32);
  }
  void compare_forward(const FlashShape& s, const Result& got, const Result& want) {
    EXPECT_LT(error(s, got.o, want.o), GetParam().tolerance) << "O";
    EXPECT_TRUE(
        every_element_is_right(got.o, want.o, FlashTolerances(want.o, s.head_dim, roundoff())))
        << "O";
    for (std::size_t i = 0; i < want.logsumexp.size(); ++i) {
      ASSERT_NEAR(got.logsumexp[i], want.logsumexp[i], GetParam().logsumexp_tolerance) << i;
    }
  }
  void compare(const FlashShape& s, const Result& got, const Result& want) {
    compare_forward(s, got, want);
    const std::array<const char*, 3> names = {"dQ", "dK", "dV"};
    const FlashTolerances by_o(want.o, s.head_dim, roundoff());
    const FlashTolerances by_dv(part(s, want.dqkv, 2), s.head_dim, roundoff());
    for (std::size_t i = 0; i < 3; ++i) {
      const Values part_got = part(s, got.dqkv, i);
      const Values part_want = part(s, want.dqkv, i);
      EXPECT_LT(error(s, part_got, part_want), GetParam().tolerance) << names[i];
      EXPECT_TRUE(every_element_is_right(part_got, part_want, i == 0 ? by_o : by_dv)) << names[i];
    }
  }

  static bool uses_hopper(FlashPass pass) {
    const Arithmetic& a = GetParam();
    const bool half = precision_named(a.precision).compute != Dtype::f32;
    const bool bf16x3 = a.fp32 == Fp32Attention::bf16x3 && pass == FlashPass::forward;
    return compute_capability() == 90 && a.kernels == FlashKernels::newest && (half || bf16x3);
  }
  // Whether both passes split tiles where there are few.
  static bool splits_tiles() { return uses_hopper(FlashPass::backward); }

  [[nodiscard]] FlashShape shape(std::int64_t batch, std::int64_t context, std::int64_t heads,
                                 std::int64_t head_dim, bool causal) const {
    return {.batch = batch,
            .context = context,
            .heads = heads,
            .head_dim = head_dim,
            .dtype = precision_named(GetParam().precision).compute,
            .fp32 = GetParam().fp32,
            .causal = causal,
            .kernels = GetParam().kernels};
  }

  // The smallest call of each kind of forward plan. kind(plan, shape) returns an optional kind.
  template <class Kind>
  [[nodiscard]] auto smallest_of_each(std::int64_t head_dim, Kind&& kind) const {
    std::map<std::decay_t<decltype(*kind(std::declval<ForwardPlan>(), FlashShape{}))>, FlashShape>
        smallest;
    const auto work = [](const FlashShape& s) { return s.heads * s.context * s.context; };
    for (const std::int64_t context : {300, 500, 700, 1000, 1500, 2000, 3000}) {
      for (std::int64_t heads = 1; heads <= 160; ++heads) {
        for (const bool causal : {false, true}) {
          const FlashShape s = shape(1, context, heads, head_dim, causal);
          const auto found = kind(ForwardPlan(s), s);
          if (!found) continue;
          const auto [at, is_new] = smallest.emplace(*found, s);
          if (!is_new && work(s) < work(at->second)) at->second = s;
        }
      }
    }
    return smallest;
  }
  // For each tile size, by warpgroups, a call in which a block loops over more tiles of keys than
  // its rings have stages.
  [[nodiscard]] std::map<int, FlashShape> refilling_rings(std::int64_t head_dim) const {
    if (!uses_hopper(FlashPass::forward)) return {{1, shape(1, 300, 2, head_dim, true)}};
    auto calls = smallest_of_each(head_dim, [](const ForwardPlan& plan, const FlashShape& s) {
      const int stages = forward_stages(s.head_dim, s.dtype == Dtype::f32);
      const bool refills = plan.order.longest() / plan.parts() >= stages + 2;
      return refills ? std::optional(plan.warpgroups) : std::nullopt;
    });
    expect_every_size(head_dim, calls);
    return calls;
  }
  void expect_every_size(std::int64_t head_dim,
                         const std::map<int, FlashShape>& by_warpgroups) const {
    if (multiprocessors() != 132) return;
    EXPECT_EQ(by_warpgroups.size(),
              splits_tiles() ? max_warpgroups(head_dim) : max_bf16x3_warpgroups)
        << head_dim;
  }

  std::unique_ptr<Device> gpu;
  CpuDevice cpu{std::size_t{1} << 32U, 4};
  std::unique_ptr<Ops> gpu_ops;
  std::unique_ptr<Ops> cpu_ops;
  std::uint64_t streams = 0;
};

}  // namespace paceline
