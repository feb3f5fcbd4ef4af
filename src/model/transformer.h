#pragma once
// The Transformer with a hand-written forward and backward, for every device. Backward reports each
// gradient to a ParameterAccess as it becomes ready, layer by layer; parallel strategies overlap
// communication in that order.

#include <cstdint>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "core/parameter_access.h"
#include "core/step_state.h"
#include "model/model_config.h"
#include "model/parameter_store.h"

namespace paceline {

struct ForwardOptions {
  bool keep = true;   // keep activations for backward; false (inference): free each after use
  int recompute = 0;  // n > 0: keep only the input of every n blocks and recompute the rest
  bool recompute_swiglu = false;  // recompute SwiGLU's result in backward
  Tensor logits;                  // output: a copy of the logits, [B, T, V] float32, unless empty
};

class Transformer {
 public:
  // Allocates the parameters, all 0. Throws OutOfMemory.
  Transformer(Device& device, const ModelConfig& config, const Precision& precision,
              StoreLayout layout = {});

  // The store's entries in its order; views have the reference's state-dict names.
  [[nodiscard]] static std::vector<ParameterEntry> entries(const ModelConfig& config);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] ParameterStore& store() { return store_; }

  // state.tokens, state.targets [B, T] -> state.loss
  void forward(Ops& ops, const StepState& state, ParameterAccess& access,
               const ForwardOptions& options);
  // Backward of the last forward, which must have had keep = true; writes the store's gradients,
  // which must be allocated.
  void backward(Ops& ops, const StepState& state, ParameterAccess& access);

 private:
  // The entries of one block in the store.
  struct BlockParameters {
    ParameterId w2, w13, ln2, output, qkv, ln1;
  };
  // What backward needs of one block; one Saved per composite.
  struct BlockSaved {
    // z: also keep SwiGLU's result, the input of w2.
    BlockSaved(bool keep, bool z)
        : ln1(keep), qkv(keep), attention(keep), output(keep), ln2(keep), swiglu(keep), w2(z) {}
    Saved ln1, qkv, attention, output, ln2, swiglu, w2;
  };
  // The residual stream: x and the last sublayer's output, which the next norm adds to it.
  struct Residual {
    Array x;       // [B, T, D]
    Array branch;  // [B, T, D] or empty
  };

  [[nodiscard]] AttentionShape attention_shape(const StepState& state) const;
  void written(ParameterAccess& access, ParameterId id);
  Residual block_forward(Ops& ops, ParameterAccess& access, Pass pass, std::int64_t layer,
                         const AttentionShape& shape, BlockSaved& saved, Residual in);
  Array block_backward(Ops& ops, ParameterAccess& access, std::int64_t layer,
                       const AttentionShape& shape, BlockSaved& saved, Array d);
  void recompute_group(Ops& ops, ParameterAccess& access, std::int64_t last_layer,
                       const AttentionShape& shape);

  Device& device_;
  ModelConfig config_;
  ParameterStore store_;
  ParameterId head_ = 0;
  ParameterId ln_final_;
  ParameterId embedding_;
  std::vector<BlockParameters> blocks_;
  Array rope_table_;  // [T, d/2, 2] (cos, sin)

  // Kept from the last forward.
  std::vector<BlockSaved> saved_;
  Saved saved_head_;
  int recompute_ = 0;
  bool recompute_swiglu_ = false;
  std::vector<Residual> group_inputs_;  // with recompute: one per group of blocks
};

}  // namespace paceline
