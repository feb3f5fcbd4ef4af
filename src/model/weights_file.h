#pragma once
// HDF5 files with the reference's state-dict names: weights are loaded, a step's values are dumped.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "model/parameter_store.h"
#include "model/transformer.h"

namespace paceline {

// Random weights with the distributions of the course's reference: normal with std
// sqrt(2 / (in + out)), truncated at 3 std; embedding std 1, truncated at 3; norms 1. An element's
// value does not depend on the rank or its shard. GPU and CPU values differ by at most a rounding.
void initialise_weights(Ops& ops, ParameterStore& store, std::uint64_t seed);

// Throws UsageError (--load-weights) unless the file has exactly the model's tensors, at the root
// or under weights/, with the model's shapes and a floating-point dtype. Reads no values.
void check_weights_file(const std::filesystem::path& file, const ModelConfig& config);
// Loads the parameters that the store keeps. Returns a checksum (FNV-1a) of all values in the file.
[[nodiscard]] std::uint64_t load_weights(Device& device, Ops& ops, ParameterStore& store,
                                         const std::filesystem::path& file);

// A tensor's values on the host and its state-dict name.
struct NamedValues {
  std::string name;
  std::vector<float> values;
  Shape shape;
};
using Snapshot = std::vector<NamedValues>;

// --dump: collects a step's values in host memory as float32 and writes them at the end of the run.
class Dump {
 public:
  Dump(Device& device, const ModelConfig& config, std::int64_t batch);

  // Throws UsageError (--dump) unless `file` can be created, or exists and `replace` is set.
  static void check_writable(const std::filesystem::path& file, bool replace);

  [[nodiscard]] const Array& logits() const { return logits_; }  // [B, T, V] float32 on the device
  // Copies logits, loss and gradient scale from the device.
  void take_first_step(const StepState& state);
  // To be filled: of the first step, with the loss scale; after the last step.
  [[nodiscard]] Snapshot& gradients() { return gradients_; }
  [[nodiscard]] Snapshot& weights() { return weights_; }
  // Datasets: `logits`, `loss`, `gradients/NAME` (divided by the loss scale; absent in modes
  // without backward), `weights/NAME`. Throws StoppedError if the file cannot be written.
  void write(const std::filesystem::path& file);

 private:
  Device& device_;
  Array logits_;
  std::vector<float> first_logits_;
  double loss_ = 0;
  float gradient_scale_ = 1;
  Snapshot gradients_;
  Snapshot weights_;
};

}  // namespace paceline
