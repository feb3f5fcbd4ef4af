#pragma once
// ParameterAccess: what a model asks of the strategy that lays its parameters out over ranks. Every
// use of a parameter, in forward, recomputation and backward alike, is between acquire() and
// release(); backward tells of each gradient as it becomes ready.

#include <cstddef>
#include <cstdint>

#include "core/non_copyable.h"
#include "core/tensor.h"

namespace paceline {

// One entry of the ParameterStore as an operation sees it. All three have the entry's shape.
struct Parameter {
  Tensor value;             // the master weights
  Tensor compute;           // what GEMMs read: the low-precision copy, or `value` itself
  Tensor gradient;          // empty before the first backward
  bool accumulate = false;  // a gradient was written in this step already: add to it
};

using ParameterId = std::size_t;  // an entry of the ParameterStore

enum class Pass : std::uint8_t { forward, recompute, backward };

class ParameterAccess : NonCopyable {
 public:
  virtual ~ParameterAccess() = default;

  // Where the parameter lies for the operations that are enqueued until release().
  [[nodiscard]] virtual Parameter acquire(ParameterId id, Pass pass) = 0;
  virtual void release(ParameterId /*id*/, Pass /*pass*/) {}
  // The last part of its gradient has been enqueued.
  virtual void gradient_ready(ParameterId /*id*/) {}
};

// A parameter in use, from construction to destruction.
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
