#include "model/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline {

namespace {

Array make_rope_table(Device& device, const ModelConfig& config, Dtype dtype) {
  const Scope scope(device.scopes(), "rope table");
  const std::int64_t half = config.head_dim() / 2;
  Array table = device.allocate({config.context, half, 2}, dtype, MemoryKind::workspace);
  dispatch_floating(dtype, [&]<class T>() {
    std::vector<T> host;  // [T, d/2, 2]
    for (std::int64_t position = 0; position < config.context; ++position) {
      for (std::int64_t j = 0; j < half; ++j) {
        const double frequency =
            std::pow(config.rope_theta,
                     -2.0 * static_cast<double>(j) / static_cast<double>(config.head_dim()));
        const double angle = static_cast<double>(position) * frequency;
        host.push_back(static_cast<T>(std::cos(angle)));
        host.push_back(static_cast<T>(std::sin(angle)));
      }
    }
    device.to_device(table, host.data());
  });
  return table;
}

}  // namespace

std::vector<ParameterEntry> Transformer::entries(const ModelConfig& c) {
  const std::int64_t D = c.d_model;
  const std::int64_t F = c.d_ff;
  std::vector<ParameterEntry> e;
  std::string unit;
  bool full_precision = false;
  // Appends an entry of views of this shape, concatenated along the first dimension.
  const auto add = [&](const std::vector<std::string>& names, const Shape& shape) {
    const auto views = static_cast<std::int64_t>(names.size());
    e.push_back({.views = {},
                 .shape = views == 1 ? shape : Shape{views * shape[0], shape[1]},
                 .full_precision = full_precision,
                 .unit = unit});
    for (const std::string& name : names) e.back().views.push_back({name, shape});
  };
  const auto layer = [](std::int64_t i, std::string_view part) {
    return fmt::format("layers.{}.{}.weight", i, part);
  };
  unit = "head";
  add({"lm_head.weight"}, {c.vocab, D});
  for (std::int64_t i = c.layers - 1; i >= 0; --i) {
    unit = fmt::format("block {}", i);
    add({layer(i, "ffn.w2")}, {D, F});
    add({layer(i, "ffn.w1"), layer(i, "ffn.w3")}, {F, D});
    add({layer(i, "attn.output_proj")}, {D, D});
    add({layer(i, "attn.q_proj"), layer(i, "attn.k_proj"), layer(i, "attn.v_proj")}, {D, D});
  }
  full_precision = true;
  unit = "norms";
  add({"ln_final.weight"}, {D});
  for (std::int64_t i = c.layers - 1; i >= 0; --i) {
    add({layer(i, "ln2")}, {D});
    add({layer(i, "ln1")}, {D});
  }
  unit = "embedding";
  add({"token_embeddings.weight"}, {c.vocab, D});
  return e;
}

Transformer::Transformer(Device& device, const ModelConfig& config, const Precision& precision,
                         StoreLayout layout)
    : device_(device),
      config_(config),
      store_(device, precision, entries(config), std::move(layout)),
      ln_final_(1 + 4 * static_cast<ParameterId>(config.layers)),
      embedding_(store_.entries().size() - 1),
      rope_table_(make_rope_table(device, config, precision.statistics)) {
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto later = static_cast<ParameterId>(config.layers - 1 - i);
    const ParameterId weights = head_ + 1 + 4 * later;
    const ParameterId norms = ln_final_ + 1 + 2 * later;
    blocks_.push_back({.w2 = weights,
                       .w13 = weights + 1,
                       .ln2 = norms,
                       .output = weights + 2,
                       .qkv = weights + 3,
                       .ln1 = norms + 1});
  }
}

AttentionShape Transformer::attention_shape(const StepState& state) const {
  const Shape& tokens = state.tokens.shape();
  return {.batch = tokens[0],
          .context = tokens[1],
          .heads = config_.heads,
          .head_dim = config_.head_dim()};
}

void Transformer::written(ParameterAccess& access, ParameterId id) {
  if (store_.gradient_written(id)) access.gradient_ready(id);
}

void Transformer::forward(Ops& ops, const StepState& state, ParameterAccess& access,
                          const ForwardOptions& options) {
  const AttentionShape shape = attention_shape(state);
  const auto use = [&](ParameterId id) { return ParameterUse(access, id, Pass::forward); };
  recompute_ = options.keep ? options.recompute : 0;
  recompute_swiglu_ = options.recompute_swiglu;
  const bool keep_blocks = options.keep && recompute_ == 0;
  saved_.assign(blocks_.size(), BlockSaved(keep_blocks, keep_blocks && !recompute_swiglu_));
  saved_head_ = Saved(options.keep);
  group_inputs_.clear();

  Residual r;
  {
    const Scope scope(device_.scopes(), "embedding");
    r.x = ops.embed(state.tokens, use(embedding_));
  }
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    if (recompute_ > 0 && i % recompute_ == 0) group_inputs_.push_back(r);
    r = block_forward(ops, access, Pass::forward, i, shape, saved_[static_cast<std::size_t>(i)],
                      std::move(r));
  }
  const Scope scope(device_.scopes(), "head");
  const ParameterUse norm = use(ln_final_);
  const ParameterUse linear = use(head_);
  ops.head(saved_head_, std::move(r.x), std::move(r.branch),
           {.norm = norm, .linear = linear, .state = state, .logits = options.logits});
}

Transformer::Residual Transformer::block_forward(Ops& ops, ParameterAccess& access, Pass pass,
                                                 std::int64_t layer, const AttentionShape& shape,
                                                 BlockSaved& saved, Residual in) {
  const BlockParameters& p = blocks_[static_cast<std::size_t>(layer)];
  const auto use = [&](ParameterId id) { return ParameterUse(access, id, pass); };
  ScopeStack& scopes = device_.scopes();
  const Scope block(scopes, fmt::format("block {}", layer));
  Residual r = std::move(in);
  {
    const Scope scope(scopes, "attention");
    auto [h, n] = ops.add_rms_norm(saved.ln1, std::move(r.x), std::move(r.branch), use(p.ln1));
    Array qkv = ops.qkv_rope(saved.qkv, std::move(n), use(p.qkv), rope_table_, shape);
    Array o = ops.attention(saved.attention, std::move(qkv), shape);
    r = {std::move(h), ops.linear(saved.output, std::move(o), use(p.output))};
  }
  {
    const Scope scope(scopes, "ffn");
    auto [h, n] = ops.add_rms_norm(saved.ln2, std::move(r.x), std::move(r.branch), use(p.ln2));
    Array z = ops.swiglu_linear(saved.swiglu, std::move(n), use(p.w13));
    r = {std::move(h), ops.linear(saved.w2, std::move(z), use(p.w2))};
  }
  return r;
}

void Transformer::backward(Ops& ops, const StepState& state, ParameterAccess& access) {
  const AttentionShape shape = attention_shape(state);
  const auto use = [&](ParameterId id) { return ParameterUse(access, id, Pass::backward); };
  store_.begin_backward();
  Array d;  // [B, T, D] the gradient of the residual stream
  {
    const Scope scope(device_.scopes(), "head");
    const ParameterUse norm = use(ln_final_);
    const ParameterUse linear = use(head_);
    d = ops.head_backward(saved_head_,
                          {.norm = norm, .linear = linear, .state = state, .logits = {}});
    written(access, head_);
    written(access, ln_final_);
  }
  for (std::int64_t i = config_.layers - 1; i >= 0; --i) {
    const bool ends_group = i == config_.layers - 1 || (i + 1) % std::max(recompute_, 1) == 0;
    if (recompute_ > 0 && ends_group) recompute_group(ops, access, i, shape);
    d = block_backward(ops, access, i, shape, saved_[static_cast<std::size_t>(i)], std::move(d));
  }
  ops.apply_updates();
  const Scope scope(device_.scopes(), "embedding");
  ops.embed_backward(d, state.tokens, use(embedding_));
  written(access, embedding_);
}

Array Transformer::block_backward(Ops& ops, ParameterAccess& access, std::int64_t layer,
                                  const AttentionShape& shape, BlockSaved& saved, Array d) {
  const BlockParameters& p = blocks_[static_cast<std::size_t>(layer)];
  const auto use = [&](ParameterId id) { return ParameterUse(access, id, Pass::backward); };
  ScopeStack& scopes = device_.scopes();
  const Scope block(scopes, fmt::format("block {}", layer));
  {
    const Scope scope(scopes, "ffn");
    if (recompute_swiglu_) {
      saved.w2 = Saved(true);
      saved.w2.save({ops.swiglu_again(saved.swiglu)});
    }
    Array dz = ops.linear_backward(saved.w2, d, use(p.w2));
    written(access, p.w2);
    Array dn = ops.swiglu_linear_backward(saved.swiglu, std::move(dz), use(p.w13));
    written(access, p.w13);
    d = ops.add_rms_norm_backward(saved.ln2, std::move(d), std::move(dn), use(p.ln2));
    written(access, p.ln2);
  }
  const Scope scope(scopes, "attention");
  Array d_heads = ops.linear_backward(saved.output, d, use(p.output));
  written(access, p.output);
  Array dqkv = ops.attention_backward(saved.attention, std::move(d_heads), shape);
  Array dn = ops.qkv_rope_backward(saved.qkv, std::move(dqkv), use(p.qkv), rope_table_);
  written(access, p.qkv);
  d = ops.add_rms_norm_backward(saved.ln1, std::move(d), std::move(dn), use(p.ln1));
  written(access, p.ln1);
  return d;
}

// Recomputes the forward of the group of blocks that ends with `last_layer`, keeping the
// activations for backward.
void Transformer::recompute_group(Ops& ops, ParameterAccess& access, std::int64_t last_layer,
                                  const AttentionShape& shape) {
  Residual r = std::move(group_inputs_.back());
  group_inputs_.pop_back();
  for (std::int64_t i = last_layer / recompute_ * recompute_; i <= last_layer; ++i) {
    BlockSaved& saved = saved_[static_cast<std::size_t>(i)];
    saved = BlockSaved(true, !recompute_swiglu_);
    r = block_forward(ops, access, Pass::recompute, i, shape, saved, std::move(r));
  }
}

}  // namespace paceline
