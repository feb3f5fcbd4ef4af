// Results do not depend on the number of threads: they are bitwise equal with one and with several.

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

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
