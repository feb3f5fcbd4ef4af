#pragma once
// Weights in and a step's values out, by the reference's state-dict names (HDF5).

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "model/parameter_store.h"
#include "model/transformer.h"

namespace paceline {

// Random weights as the course's reference draws them: truncated normal, std sqrt(2 / (in + out))
// cut at 3 std; embedding std 1 cut at 3; norms 1. The same on every rank, whichever part of them
// it keeps; a GPU's differ from the CPU's by a rounding at most.
void initialise_weights(Ops& ops, ParameterStore& store, std::uint64_t seed);

// Throws UsageError (--load-weights) unless the file has exactly the model's tensors, at the root
// or under weights/, in its shapes and a floating dtype. Reads no data.
void check_weights_file(const std::filesystem::path& file, const ModelConfig& config);
// Of the file's values a checksum, whichever of them the store keeps.
[[nodiscard]] std::uint64_t load_weights(Device& device, Ops& ops, ParameterStore& store,
                                         const std::filesystem::path& file);

// --dump: collects a step's values on the host, as float32, and writes them at the end.
class Dump {
 public:
  Dump(Device& device, const ModelConfig& config, std::int64_t batch);

  // Throws UsageError (--dump) unless a file can be made there; one that exists only if `replace`.
  static void check_writable(const std::filesystem::path& file, bool replace);

  [[nodiscard]] const Array& logits() const { return logits_; }  // [B, T, V] float32 on the device
  // Logits, loss, and what gradients are divided by.
  void take_first_step(const StepState& state);
  // Of a range of the store, values of that range.
  void add_gradients(const ParameterStore& store, const StoreRange& range, const Tensor& values);
  void add_weights(const ParameterStore& store, const StoreRange& range, const Tensor& values);
  // `logits`, `loss`, `gradients/NAME` (without the loss scale that they were computed with; left
  // out in modes without backward), `weights/NAME`. Throws StoppedError when it cannot be written.
  void write(const std::filesystem::path& file) const;

 private:
  struct Named {
    std::string name;
    Shape shape;
    std::vector<float> values;
  };
  Device& device_;
  Array logits_;
  std::vector<float> first_logits_;
  double loss_ = 0;
  float gradient_scale_ = 1;
  std::vector<Named> gradients_;
  std::vector<Named> weights_;
};

}  // namespace paceline
