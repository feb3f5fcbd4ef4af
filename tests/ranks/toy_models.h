#pragma once
// The course's toy models (common.py of its tests), written with Ops, to compare data parallelism
// with a single process: ToyModel with a frozen bias and a fixed parameter, and
// ToyModelWithTiedWeights, whose second and fourth layers share a weight.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "core/random.h"
#include "model/parameter_store.h"
#include "parallel/gradient_exchange.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

struct ToyLayer {
  ParameterId weight;  // [out, in], in the trainable store
  bool has_bias = false;
};

struct ToyDesign {
  const char* name;
  std::vector<ParameterEntry> trainable;  // in the order in which backward completes gradients
  std::vector<ParameterEntry> frozen;
  std::vector<ToyLayer> layers;  // relu between them
};

inline ParameterEntry toy_entry(const char* name, const Shape& shape, int uses = 1) {
  return {.views = {{name, shape}}, .shape = shape, .uses = uses, .unit = name};
}

inline ToyDesign toy_model() {
  return {.name = "ToyModel",
          .trainable = {toy_entry("fc3.weight", {5, 50}), toy_entry("fc2.fc.weight", {50, 10}),
                        toy_entry("fc1.weight", {10, 10})},
          .frozen = {toy_entry("fc2.bias", {50}), toy_entry("no_grad_fixed_param", {2, 2})},
          .layers = {{2}, {1, true}, {0}}};
}

inline ToyDesign toy_model_with_tied_weights() {
  return {.name = "ToyModelWithTiedWeights",
          .trainable = {toy_entry("fc5.weight", {5, 50}), toy_entry("fc3.weight", {10, 50}),
                        toy_entry("fc2.weight = fc4.weight", {50, 10}, 2),
                        toy_entry("fc1.weight", {10, 10})},
          .frozen = {},
          .layers = {{3}, {2}, {1}, {2}, {0}}};
}

class ToyModel {
 public:
  ToyModel(Device& device, Ops& ops, const ToyDesign& design)
      : device_(device),
        ops_(ops),
        layers_(design.layers),
        trainable_(device, ops.precision(), design.trainable),
        frozen_(device, ops.precision(), design.frozen) {}

  [[nodiscard]] ParameterStore& trainable() { return trainable_; }
  [[nodiscard]] ParameterStore& frozen() { return frozen_; }

  void draw(std::uint64_t seed) {
    constexpr double deviation = 0.3;
    std::uint64_t stream = 0;
    for (ParameterStore* store : {&trainable_, &frozen_}) {
      for (const ParameterEntry& entry : store->entries()) {
        std::vector<float> values(static_cast<std::size_t>(entry.shape.numel()));
        Random(seed, stream++).fill_normal(values);
        for (float& v : values) v *= deviation;
        device_.to_device(entry.range().of(store->parameters()), values.data());
      }
    }
  }

  // Gradients of the mean squared error over the rows of `ranks` ranks.  x [R, 10], y [R, 5]
  void forward_backward(const Tensor& x, const Tensor& y, ParallelStrategy& sync, int ranks = 1) {
    sync.begin_step();
    std::vector<Array> inputs;  // of each layer but the first, [R, in]
    const auto input = [&](std::size_t i) { return i == 0 ? x : inputs[i - 1].tensor(); };
    Array out;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const ParameterUse use(sync, layers_[i].weight, Pass::forward);
      const Tensor w = static_cast<const Parameter&>(use).value;
      out = device_.allocate({x.shape[0], w.shape[0]}, Dtype::f32, MemoryKind::activation);
      ops_.matmul(Matrix(out), Matrix(input(i)), Matrix(w).transpose());
      if (layers_[i].has_bias) {
        const std::vector<float> bias = get_floats(device_, frozen_.parameter(0).value);
        for_each(out, [&](std::size_t j, float v) { return v + bias[j % bias.size()]; });
      }
      if (i + 1 < layers_.size()) {
        for_each(out, [](std::size_t, float v) { return std::max(v, 0.0F); });
      }
      inputs.push_back(out);
    }
    trainable_.allocate_gradients();
    trainable_.begin_backward();
    Array d = device_.allocate(y.shape, Dtype::f32, MemoryKind::activation);
    const auto factor = static_cast<float>(2.0 / static_cast<double>(y.numel() * ranks));
    const std::vector<float> got = get_floats(device_, out);
    const std::vector<float> want = get_floats(device_, y);
    for_each(d, [&](std::size_t j, float) { return factor * (got[j] - want[j]); });
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const ParameterId id = layers_[i].weight;
      const ParameterUse use(sync, id, Pass::backward);
      const Parameter& p = use;
      ops_.matmul(Matrix(p.gradient), Matrix(d).transpose(), Matrix(input(i)), 1,
                  p.accumulate ? 1 : 0);
      if (trainable_.gradient_written(id)) sync.gradient_ready(id);
      if (i == 0) break;
      Array below = device_.allocate(input(i).shape, Dtype::f32, MemoryKind::activation);
      ops_.matmul(Matrix(below), Matrix(d), Matrix(p.value));
      const std::vector<float> relu = get_floats(device_, input(i));
      for_each(below, [&](std::size_t j, float v) { return relu[j] > 0 ? v : 0; });
      d = below;
    }
    sync.finish_backward();
  }

  void sgd(double learning_rate) {
    ops_.sgd(trainable_.parameters(), trainable_.gradients(), learning_rate);
  }

 private:
  // x[j] = f(j, x[j]), on the host
  template <class F>
  void for_each(const Tensor& x, F f) {
    std::vector<float> values = get_floats(device_, x);
    for (std::size_t j = 0; j < values.size(); ++j) values[j] = f(j, values[j]);
    device_.to_device(x, values.data());
  }

  Device& device_;
  Ops& ops_;
  std::vector<ToyLayer> layers_;
  ParameterStore trainable_;
  ParameterStore frozen_;
};

}  // namespace paceline
