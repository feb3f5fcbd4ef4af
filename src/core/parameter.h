#pragma once
#include "core/tensor.h"

namespace paceline {

// One entry of the ParameterStore as an operation sees it. All three have the entry's shape.
struct Parameter {
  Tensor value;             // the master weights
  Tensor compute;           // what GEMMs read: the low-precision copy, or `value` itself
  Tensor gradient;          // empty before the first backward
  bool accumulate = false;  // a gradient was written in this step already: add to it
};

}  // namespace paceline
