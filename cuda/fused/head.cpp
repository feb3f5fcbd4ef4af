// The last norm, the logits and the loss; the gradient of the logits overwrites the logits.

#include <algorithm>
#include <utility>

#include "cuda/cuda_fused_ops.h"
#include "cuda/kernels/partial_sums.h"

namespace paceline {

namespace {

// Rows first ... first + count - 1 of x [..., cols].
Tensor rows_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  return x.slice(first * x.cols(), {count, x.cols()});
}

}  // namespace

// The number of rows of logits in memory at a time: all, or as many whole tiles of a product as
// fit.
std::int64_t CudaFusedOps::logit_rows(const Head& head) const {
  constexpr std::int64_t tile = 128;
  const std::int64_t rows = head.state.targets.tensor().numel();
  const std::int64_t row_bytes = head.linear.compute.rows() * size_of(precision().logits);
  const std::int64_t fitting = std::max(max_logit_bytes_ / row_bytes / tile * tile, tile);
  // A gradient that is kept in a half type would be rounded at every part.
  return precision().communication == Dtype::f32 ? std::min(rows, fitting) : rows;
}

template <class F>
void CudaFusedOps::for_each_logit_gradient(const Tensor& normed, const Head& head, F f) {
  const std::int64_t rows = normed.rows();
  const std::int64_t most = logit_rows(head);
  const std::int64_t parts = (rows + most - 1) / most;
  const Tensor targets = head.state.targets.tensor().reshape({rows});
  Array losses;
  if (parts > 1) losses = activation({parts}, Dtype::f32);
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    const Scope scope(device().scopes(), "logits");
    const Array logits = activation({count, head.linear.compute.rows()}, precision().logits);
    matmul(Matrix(logits), Matrix(rows_of(normed, first, count)),
           Matrix(head.linear.compute).transpose());
    if (!head.logits.empty()) cast(rows_of(head.logits, first, count), logits);
    const Tensor loss = parts == 1 ? head.state.loss : losses.tensor().slice(first / most, {1});
    {
      const Scope in_place = operation("cross_entropy", {logits, logits});
      cross_entropy_in_place(loss, logits, targets.slice(first, {count}), head.state, rows);
    }
    f(first, logits);
  }
  if (parts > 1) sum_values(head.state.loss, losses.tensor().as<float>(), parts, 1, stream());
}

void CudaFusedOps::head(Saved& saved, Array x, Array branch, const Head& head) {
  Saved norm_saved(saved.keeps());
  const Array normed = add_rms_norm(norm_saved, std::move(x), std::move(branch), head.norm).normed;
  Array whole;  // the gradient of all logits, if it fits
  for_each_logit_gradient(normed, head, [&](std::int64_t /*first*/, const Array& gradient) {
    if (gradient.tensor().rows() == normed.tensor().rows()) whole = gradient;
  });
  if (!saved.keeps()) return;
  const std::vector<Array> norm_kept = norm_saved.take();
  saved.save({norm_kept.at(0), norm_kept.at(1), normed, whole});
}

Array CudaFusedOps::head_backward(Saved& saved, const Head& head) {
  std::vector<Array> kept = saved.take();
  Saved norm_saved;
  norm_saved.save({kept.at(0), kept.at(1)});
  Array normed = std::move(kept.at(2));
  Array whole = std::move(kept.at(3));
  Array d_normed;
  if (!whole.empty()) {
    d_normed = product_backward(std::move(normed), whole, head.linear);
    whole = {};
  } else {
    d_normed = activation(normed.shape(), precision().compute);
    for_each_logit_gradient(normed, head, [&](std::int64_t first, const Array& gradient) {
      const std::int64_t count = gradient.tensor().rows();
      const bool adds = head.linear.accumulate || first > 0;
      matmul(Matrix(head.linear.gradient), Matrix(gradient).transpose(),
             Matrix(rows_of(normed, first, count)), 1, adds ? 1 : 0);
      matmul(Matrix(rows_of(d_normed, first, count)), Matrix(gradient),
             Matrix(head.linear.compute));
    });
    normed = {};
  }
  return add_rms_norm_backward(norm_saved, {}, std::move(d_normed), head.norm);
}

}  // namespace paceline
