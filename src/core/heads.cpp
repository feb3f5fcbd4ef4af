#include "core/heads.h"

#include <algorithm>

#include "core/error.h"

namespace paceline {

Heads::Heads(const Tensor& x)
    : tensor(x),
      batch(x.shape[0]),
      context(x.shape[1]),
      heads(x.shape[2]),
      head_dim(x.shape[3]),
      batch_stride(context * heads * head_dim),
      row_stride(heads * head_dim),
      head_stride(head_dim) {}

QkvHeads::QkvHeads(const Tensor& qkv) {
  const std::int64_t width = qkv.shape[3] * qkv.shape[4];  // of q in a row
  const auto part = [&](std::int64_t which) {
    Heads x(qkv.slice(which * width, {qkv.shape[0], qkv.shape[1], qkv.shape[3], qkv.shape[4]}));
    x.batch_stride *= 3;
    x.row_stride *= 3;
    return x;
  };
  q = part(0);
  k = part(1);
  v = part(2);
}

namespace {

// What logsumexp of heads of this dtype is kept in.
Dtype statistics_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return Dtype::f64;
    case Dtype::f32:
    case Dtype::bf16:
    case Dtype::f16: return Dtype::f32;
    case Dtype::i32: break;
  }
  throw_not_floating(dtype);
}

}  // namespace

void check_heads(const char* operation, std::initializer_list<Heads> all, const Tensor& logsumexp) {
  const Heads& first = *all.begin();
  const bool alike = std::all_of(all.begin(), all.end(), [&](const Heads& x) {
    return x.dtype() == first.dtype() && x.batch == first.batch && x.context == first.context &&
           x.heads == first.heads && x.head_dim == first.head_dim;
  });
  if (!alike) throw InternalError(std::string(operation) + ": heads of different shapes or dtypes");
  if (logsumexp.shape != Shape{first.batch, first.heads, first.context} ||
      logsumexp.dtype != statistics_of(first.dtype())) {
    throw InternalError(std::string(operation) + ": logsumexp is " +
                        std::string(name_of(logsumexp.dtype)) + " " + logsumexp.shape.str());
  }
}

}  // namespace paceline
