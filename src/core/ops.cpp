// The composites as sequences of primitives, as in eager PyTorch. With bf16 and fp16 they follow
// torch.autocast: linear layers and attention in the compute dtype, the residual stream and the
// norms' weights in float32.

#include "core/ops.h"

#include <utility>

namespace paceline {

namespace {

OpWork work_of_product(const Matrix& c, const Matrix& a, const Matrix& b, bool reads_c) {
  const double products = static_cast<double>(c.batch[0]) * static_cast<double>(c.batch[1]);
  const auto bytes_of = [&](const Matrix& m) {
    return products * static_cast<double>(m.rows * m.cols * size_of(m.tensor.dtype));
  };
  const auto k = static_cast<double>(a.read_cols());
  return {.flops = 2 * products * static_cast<double>(c.rows) * static_cast<double>(c.cols) * k,
          .bytes = bytes_of(a) + bytes_of(b) + (reads_c ? 2 : 1) * bytes_of(c),
          .dtypes = {c.tensor.dtype, a.tensor.dtype}};
}

// q and k of qkv [B, T, 3, H, d], as a tensor of the right size for byte counts.
Tensor queries_and_keys(const Tensor& qkv) { return {qkv.data, {qkv.numel() / 3 * 2}, qkv.dtype}; }

}  // namespace

Scope Ops::operation(std::string_view name, std::initializer_list<Tensor> tensors,
                     double flops) const {
  OpWork work{.flops = flops};
  std::size_t i = 0;
  for (const Tensor& tensor : tensors) {
    if (!tensor.empty()) work.bytes += static_cast<double>(tensor.bytes());
    if (i < work.dtypes.size()) work.dtypes.at(i++) = tensor.dtype;
  }
  return {device_.scopes(), name, work};
}

void Ops::matmul(const Matrix& c, const Matrix& a, const Matrix& b, double alpha, double beta) {
  check_product(c, a, b);
  const Scope scope(device_.scopes(), "matmul", work_of_product(c, a, b, beta != 0));
  multiply(c, a, b, alpha, beta);
}

Array Ops::as_dtype(Array x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  Array y = activation(x.shape(), dtype);
  const Scope scope = operation("cast", {y, x});
  cast(y, x);
  return y;
}

Array Ops::embed(const Tensor& tokens, const Parameter& table) {
  Array y =
      activation({tokens.shape[0], tokens.shape[1], table.value.cols()}, precision().residual);
  const Scope scope = operation("embedding", {y, tokens, y});  // a table row per token
  embedding(y, tokens, table.value);
  return y;
}

void Ops::embed_backward(const Array& dy, const Tensor& tokens, const Parameter& table) {
  const Scope scope = operation("embedding_backward", {dy, tokens, table.gradient});
  embedding_backward(table.gradient, dy, tokens, table.accumulate);
}

Ops::Normed Ops::add_rms_norm(Saved& saved, Array x, Array branch, const Parameter& weight) {
  Array residual = std::move(x);
  if (!branch.empty()) {
    Array sum = activation(residual.shape(), precision().residual);
    {
      const Scope scope = operation("add", {sum, residual, branch});
      add(sum, residual, branch);
    }
    residual = std::move(sum);
    branch = {};
  }
  Array normed = activation(residual.shape(), precision().compute);
  Array rstd = activation({residual.tensor().rows()}, precision().statistics);
  {
    const Scope scope = operation("rms_norm", {normed, rstd, residual, weight.value});
    rms_norm(normed, rstd, residual, weight.value, norm_eps);
  }
  saved.save({residual, rstd});
  return {.residual = std::move(residual), .normed = std::move(normed)};
}

// By value: overrides reuse the memory.  NOLINTNEXTLINE(performance-unnecessary-value-param)
Array Ops::add_rms_norm_backward(Saved& saved, Array d_residual, Array d_normed,
                                 const Parameter& weight) {
  const std::vector<Array> kept = saved.take();
  const Array& residual = kept[0];
  const Array& rstd = kept[1];
  Array dx = activation(residual.shape(), precision().residual);
  const Scope scope =
      operation("rms_norm_backward", {dx, d_residual, d_normed, residual, rstd, weight.gradient});
  rms_norm_backward(dx, d_residual, weight.gradient, d_normed, residual, weight.value, rstd,
                    weight.accumulate);
  return dx;
}

Array Ops::product(const Array& x, const Parameter& weight, Dtype dtype) {
  Array y = activation(x.shape().with_last(weight.compute.rows()), dtype);
  matmul(Matrix(y), Matrix(x), Matrix(weight.compute).transpose());
  return y;
}

Array Ops::product_backward(Array x, const Array& dy, const Parameter& weight) {
  matmul(Matrix(weight.gradient), Matrix(dy).transpose(), Matrix(x), 1, weight.accumulate ? 1 : 0);
  const Shape shape = x.shape();
  x = {};
  Array dx = activation(shape, precision().compute);
  matmul(Matrix(dx), Matrix(dy), Matrix(weight.compute));
  return dx;
}

Array Ops::linear(Saved& saved, Array x, const Parameter& weight) {
  x = as_dtype(std::move(x), precision().compute);
  Array y = product(x, weight, precision().compute);
  saved.save({x});
  return y;
}

Array Ops::linear_backward(Saved& saved, Array dy, const Parameter& weight) {
  dy = as_dtype(std::move(dy), precision().compute);
  return product_backward(std::move(saved.take().at(0)), dy, weight);
}

Array Ops::qkv_rope(Saved& saved, Array x, const Parameter& weight, const Tensor& rope_table,
                    const AttentionShape& shape) {
  Array qkv = linear(saved, std::move(x), weight)
                  .reshape({shape.batch, shape.context, 3, shape.heads, shape.head_dim});
  const Scope scope = operation("rope", {queries_and_keys(qkv), queries_and_keys(qkv)});
  rope(qkv, rope_table, false);
  return qkv;
}

Array Ops::qkv_rope_backward(Saved& saved, Array dqkv, const Parameter& weight,
                             const Tensor& rope_table) {
  {
    const Scope scope = operation("rope", {queries_and_keys(dqkv), queries_and_keys(dqkv)});
    rope(dqkv, rope_table, true);
  }
  const Shape s = dqkv.shape();
  dqkv = dqkv.reshape({s[0], s[1], s[2] * s[3] * s[4]});
  return linear_backward(saved, std::move(dqkv), weight);
}

Array Ops::swiglu_linear(Saved& saved, Array x, const Parameter& weight) {
  x = as_dtype(std::move(x), precision().compute);
  const Array gate_up = product(x, weight, precision().compute);  // [B, T, 2 F]
  Array z = activation(x.shape().with_last(weight.compute.rows() / 2), precision().compute);
  saved.save({x, gate_up});
  const Scope scope = operation("swiglu", {z, gate_up});
  swiglu(z, gate_up);
  return z;
}

Array Ops::swiglu_again(const Saved& saved) {
  const Array& gate_up = saved.arrays().at(1);
  Array z = activation(gate_up.shape().with_last(gate_up.tensor().cols() / 2), precision().compute);
  const Scope scope = operation("swiglu", {z, gate_up});
  swiglu(z, gate_up);
  return z;
}

Array Ops::swiglu_linear_backward(Saved& saved, Array dz, const Parameter& weight) {
  std::vector<Array> kept = saved.take();
  const Array gate_up = std::move(kept.at(1));  // overwritten by its gradient
  {
    const Scope scope = operation("swiglu_backward", {gate_up, gate_up, dz});
    swiglu_backward(gate_up, dz, gate_up);
  }
  dz = {};
  return product_backward(std::move(kept.at(0)), gate_up, weight);
}

void Ops::head(Saved& saved, Array x, Array branch, const Head& head) {
  Saved norm_saved;
  Array normed = Ops::add_rms_norm(norm_saved, std::move(x), std::move(branch), head.norm).normed;
  std::vector<Array> norm_kept = norm_saved.take();
  Array logits;
  {
    const Scope scope(device_.scopes(), "logits");
    logits = product(normed, head.linear, precision().logits);
  }
  Array logsumexp = activation({logits.tensor().rows()}, precision().statistics);
  {
    const Scope scope = operation("cross_entropy", {logits, logsumexp, head.state.targets});
    cross_entropy(head.state.loss, logsumexp, logits, head.state.targets);
  }
  if (!head.logits.empty()) cast(head.logits, logits);
  saved.save({norm_kept.at(0), norm_kept.at(1), normed, logits, logsumexp});
}

Array Ops::head_backward(Saved& saved, const Head& head) {
  std::vector<Array> kept = saved.take();
  Saved norm_saved;
  norm_saved.save({kept.at(0), kept.at(1)});
  Array logits = std::move(kept.at(3));  // overwritten by its gradient
  {
    const Scope scope =
        operation("cross_entropy_backward", {logits, logits, kept.at(4), head.state.targets});
    cross_entropy_backward(logits, logits, kept.at(4), head.state.targets, head.state);
  }
  logits = as_dtype(std::move(logits), precision().compute);
  Array d_normed = product_backward(std::move(kept.at(2)), logits, head.linear);
  logits = {};
  return Ops::add_rms_norm_backward(norm_saved, {}, std::move(d_normed), head.norm);
}

}  // namespace paceline
