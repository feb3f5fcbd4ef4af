// The attention composites. Naive: matrix product, scale, mask, softmax and matrix product are
// separate operations, as in eager PyTorch. Fused: scale, mask and softmax are one operation.
// Flash: all are one operation, and no T x T matrix is kept.

#include <cmath>
#include <utility>

#include "core/ops.h"

namespace paceline {

namespace {

// scores [B, H, T, T] as a batch of B H matrices [T, T].
Matrix score_matrix(const Tensor& scores, const AttentionShape& s) {
  Matrix m(scores);
  m.rows = s.context;
  m.batch = {s.batch, s.heads};
  m.batch_stride = {s.heads * s.context * s.context, s.context * s.context};
  return m;
}

// y [B, T, H d]
Heads merged_heads(const Tensor& y, const AttentionShape& s) {
  return Heads(y.reshape({s.batch, s.context, s.heads, s.head_dim}));
}

ScoreOptions score_options(const AttentionShape& s) {
  return {.scale = 1 / std::sqrt(static_cast<double>(s.head_dim)), .causal = s.causal};
}

// Five FLOPs per element of softmax: maximum, difference, exponential, sum, division.
double softmax_flops(const Tensor& scores) { return 5 * static_cast<double>(scores.numel()); }

// A tensor with as many bytes as a causal mask writes: half of the scores.
Tensor masked_half(const Tensor& scores) {
  return {scores.data, {scores.numel() / 2}, scores.dtype};
}

// FLOPs of `products` matrix products per head, each [T, d] x [d, T] or [T, T] x [T, d]. A causal
// mask halves them.
double product_flops(const AttentionShape& s, int products) {
  const double flops = 2.0 * static_cast<double>(s.batch * s.heads * s.context) *
                       static_cast<double>(s.context * s.head_dim) * products;
  return s.causal ? flops / 2 : flops;
}

}  // namespace

void Ops::naive_probabilities(const Tensor& scores, const AttentionShape& shape) {
  const ScoreOptions options = score_options(shape);
  {
    const Scope computing(device_.scopes(), "computing attention scores");
    {
      const Scope scope = operation("scale", {scores, scores});
      scale(scores, options.scale);
    }
    if (options.causal) {
      const Scope scope = operation("causal_mask", {masked_half(scores)});
      causal_mask(scores);
    }
  }
  const Scope computing(device_.scopes(), "computing softmax");
  const Scope scope = operation("softmax", {scores, scores}, softmax_flops(scores));
  softmax(scores, scores);
}

void Ops::fused_probabilities(const Tensor& scores, const AttentionShape& shape) {
  const Scope computing(device_.scopes(), "computing softmax");
  const Scope scope = operation("masked_softmax", {scores, scores}, softmax_flops(scores));
  masked_softmax(scores, scores, score_options(shape));
}

// In place: turns the scores q k^T into P.
void Ops::probabilities(const Tensor& scores, const AttentionShape& shape) {
  const bool naive = config_.attention == AttentionKind::naive;
  naive ? naive_probabilities(scores, shape) : fused_probabilities(scores, shape);
}

// In place: turns dP into dS. The gradient of q k^T is the returned factor times dS.
double Ops::probabilities_backward(const Tensor& dp, const Tensor& p, const AttentionShape& shape) {
  const Scope computing(device_.scopes(), "computing softmax");
  const ScoreOptions options = score_options(shape);
  if (config_.attention == AttentionKind::naive) {
    const Scope scope = operation("softmax_backward", {dp, dp, p}, softmax_flops(p));
    softmax_backward(dp, dp, p);
    return options.scale;
  }
  const Scope scope = operation("masked_softmax_backward", {dp, dp, p}, softmax_flops(p));
  masked_softmax_backward(dp, dp, p, options);
  return 1;
}

Array Ops::attention(Saved& saved, Array qkv, const AttentionShape& shape) {
  const Scope scope(device_.scopes(), "scaled dot product attention");
  if (config_.attention == AttentionKind::flash)
    return attention_by_flash(saved, std::move(qkv), shape);
  const QkvHeads in(qkv);
  Array scores;  // [B, H, T, T], overwritten by the probabilities P
  {
    const Scope computing(device_.scopes(), "computing attention scores");
    scores =
        activation({shape.batch, shape.heads, shape.context, shape.context}, precision().compute);
    matmul(score_matrix(scores, shape), Matrix(in.q), Matrix(in.k).transpose());
  }
  probabilities(scores, shape);
  const Scope computing(device_.scopes(), "final matmul");
  Array y =
      activation({shape.batch, shape.context, shape.heads * shape.head_dim}, precision().compute);
  matmul(Matrix(merged_heads(y, shape)), score_matrix(scores, shape), Matrix(in.v));
  saved.save({std::move(qkv), std::move(scores)});
  return y;
}

// dV = P^T dO, dP = dO V^T, dS = softmax_backward(dP, P), dQ = dS K / sqrt(d), dK = dS^T Q /
// sqrt(d)
Array Ops::attention_backward(Saved& saved, Array dy, const AttentionShape& shape) {
  const Scope scope(device_.scopes(), "scaled dot product attention");
  dy = as_dtype(std::move(dy), precision().compute);
  if (config_.attention == AttentionKind::flash)
    return attention_by_flash_backward(saved, dy, shape);
  std::vector<Array> kept = saved.take();
  const Array qkv = std::move(kept.at(0));
  Array p = std::move(kept.at(1));
  Array dqkv = activation(qkv.shape(), precision().compute);
  const QkvHeads in(qkv);
  const QkvHeads d(dqkv);
  Array dp;  // [B, H, T, T], overwritten by dS
  {
    const Scope computing(device_.scopes(), "final matmul");
    const Matrix d_o(merged_heads(dy, shape));
    matmul(Matrix(d.v), score_matrix(p, shape).transpose(), d_o);
    dp = activation(p.shape(), precision().compute);
    matmul(score_matrix(dp, shape), d_o, Matrix(in.v).transpose());
    dy = {};
  }
  const double factor = probabilities_backward(dp, p, shape);
  p = {};
  const Scope computing(device_.scopes(), "computing attention scores");
  matmul(Matrix(d.q), score_matrix(dp, shape), Matrix(in.k), factor);
  matmul(Matrix(d.k), score_matrix(dp, shape).transpose(), Matrix(in.q), factor);
  return dqkv;
}

Array Ops::attention_by_flash(Saved& saved, Array qkv, const AttentionShape& shape) {
  const QkvHeads in(qkv);
  Array o =
      activation({shape.batch, shape.context, shape.heads * shape.head_dim}, precision().compute);
  Array logsumexp;
  {
    const Scope scope(device_.scopes(), "logsumexp");
    logsumexp = activation({shape.batch, shape.heads, shape.context}, precision().statistics);
  }
  {
    const Scope scope = operation("flash_attention", {qkv, o, logsumexp}, product_flops(shape, 2));
    flash_attention(merged_heads(o, shape), logsumexp, in.q, in.k, in.v, score_options(shape));
  }
  saved.save({std::move(qkv), o, std::move(logsumexp)});
  return o;
}

Array Ops::attention_by_flash_backward(Saved& saved, const Array& dy, const AttentionShape& shape) {
  const std::vector<Array> kept = saved.take();
  const Array& qkv = kept.at(0);
  Array dqkv = activation(qkv.shape(), precision().compute);
  const QkvHeads in(qkv);
  const QkvHeads d(dqkv);
  const Scope scope = operation("flash_attention_backward", {qkv, dqkv, dy, kept.at(1), kept.at(2)},
                                product_flops(shape, 5));
  flash_attention_backward(d.q, d.k, d.v, merged_heads(dy, shape), in.q, in.k, in.v,
                           merged_heads(kept.at(1), shape), kept.at(2), score_options(shape));
  return dqkv;
}

}  // namespace paceline
