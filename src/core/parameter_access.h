#pragma once
// ParameterAccess: a model's interface to the strategy that shards its parameters over ranks. Every
// use of a parameter, in forward, recomputation and backward, lies between acquire() and release().
// Backward reports each gradient when it is complete.

#include <cstddef>
#include <cstdint>

#include "core/non_copyable.h"
#include "core/tensor.h"

namespace paceline {

struct WeightUpdate;

// One entry of the ParameterStore as operations use it. The three tensors have the entry's shape.
struct Parameter {
  Tensor value;             // the master weights
  Tensor compute;           // what GEMMs read: the low-precision copy, or `value` itself
  Tensor gradient;          // empty before the first backward
  bool accumulate = false;  // the gradient was already written in this step: add to it
  // If set, the product that computes the gradient may take this update and not store the gradient.
  WeightUpdate* update = nullptr;
};

using ParameterId = std::size_t;  // an entry of the ParameterStore

enum class Pass : std::uint8_t { forward, recompute, backward };

class ParameterAccess : NonCopyable {
 public:
  virtual ~ParameterAccess() = default;

  // The parameter's tensors, valid for the operations that are enqueued until release().
  [[nodiscard]] virtual Parameter acquire(ParameterId id, Pass pass) = 0;
  virtual void release(ParameterId /*id*/, Pass /*pass*/) {}
  // The last operation that writes its gradient has been enqueued.
  virtual void gradient_ready(ParameterId /*id*/) {}
};

// acquire() at construction, release() at destruction.
class ParameterUse : NonCopyable {
 public:
  ParameterUse(ParameterAccess& access, ParameterId id, Pass pass)
      : access_(access), id_(id), pass_(pass), parameter_(access.acquire(id, pass)) {}
  ~ParameterUse() { access_.release(id_, pass_); }

  operator const Parameter&() const { return parameter_; }  // NOLINT(google-explicit-constructor)

 private:
  ParameterAccess& access_;
  ParameterId id_;
  Pass pass_;
  Parameter parameter_;
};

}  // namespace paceline
