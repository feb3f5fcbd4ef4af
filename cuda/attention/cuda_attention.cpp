// Converts the arguments of Ops to those of the flash kernels.

#include "cuda/attention/flash.h"
#include "cuda/cuda_eager_ops.h"

namespace paceline {

namespace {

FlashHeads pointers(const Heads& x) {
  return {x.tensor.data, x.batch_stride, x.row_stride, x.head_stride};
}

FlashShape shape_of(const AttentionShape& shape, Dtype dtype, const OpsConfig& config) {
  return {.batch = shape.batch,
          .context = shape.context,
          .heads = shape.heads,
          .head_dim = shape.head_dim,
          .dtype = dtype,
          .fp32 = config.fp32_attention,
          .causal = shape.causal,
          .deterministic = config.deterministic,
          .kernels = config.flash_kernels};
}

FlashShape shape_of(const Heads& q, bool causal, const OpsConfig& config) {
  return shape_of({q.batch, q.context, q.heads, q.head_dim, causal}, q.dtype(), config);
}

// Empty if the pass needs none. After the array is gone, only work enqueued later can get its
// memory, and that work runs later.
Array workspace(Device& device, const FlashShape& shape, FlashPass pass) {
  const auto bytes = static_cast<std::int64_t>(flash_workspace_bytes(shape, pass));
  if (bytes == 0) return {};
  const Scope scope(device.scopes(), "flash workspace");
  return device.allocate({(bytes + 3) / 4}, Dtype::f32, MemoryKind::workspace);
}

}  // namespace

void check_flash(const OpsConfig& config, const AttentionShape& shape) {
  if (config.attention != AttentionKind::flash) return;
  (void)flash_plan(shape_of(shape, config.precision.compute, config));
}

FlashPlan CudaEagerOps::flash_plan(const AttentionShape& shape) const {
  return paceline::flash_plan(shape_of(shape, precision().compute, config()));
}

void CudaEagerOps::flash_attention(const Heads& o, const Tensor& logsumexp, const Heads& q,
                                   const Heads& k, const Heads& v, const ScoreOptions& scores) {
  check_heads("flash_attention", {o, q, k, v}, logsumexp);
  const FlashShape shape = shape_of(q, scores.causal, config());
  const Array space = workspace(device(), shape, FlashPass::forward);
  flash_forward({.shape = shape,
                 .scale = static_cast<float>(scores.scale),
                 .q = pointers(q),
                 .k = pointers(k),
                 .v = pointers(v),
                 .o = pointers(o),
                 .logsumexp = logsumexp.as<float>(),
                 .workspace = space.tensor().data,
                 .stream = stream()});
}

void CudaEagerOps::flash_attention_backward(const Heads& dq, const Heads& dk, const Heads& dv,
                                            const Heads& d_o, const Heads& q, const Heads& k,
                                            const Heads& v, const Heads& o, const Tensor& logsumexp,
                                            const ScoreOptions& scores) {
  check_heads("flash_attention_backward", {dq, dk, dv, d_o, q, k, v, o}, logsumexp);
  const FlashShape shape = shape_of(q, scores.causal, config());
  const Array space = workspace(device(), shape, FlashPass::backward);
  flash_backward({.shape = shape,
                  .scale = static_cast<float>(scores.scale),
                  .q = pointers(q),
                  .k = pointers(k),
                  .v = pointers(v),
                  .o = pointers(o),
                  .d_o = pointers(d_o),
                  .logsumexp = logsumexp.as<float>(),
                  .dq = pointers(dq),
                  .dk = pointers(dk),
                  .dv = pointers(dv),
                  .workspace = space.tensor().data,
                  .stream = stream()});
}

}  // namespace paceline
