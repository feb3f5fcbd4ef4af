#include "core/dtype.h"

#include "core/error.h"

namespace paceline {

std::string_view name_of(Dtype d) {
  switch (d) {
    case Dtype::f64: return "float64";
    case Dtype::f32: return "float32";
    case Dtype::bf16: return "bfloat16";
    case Dtype::f16: return "float16";
    case Dtype::i32: return "int32";
  }
  throw_no_dtype(d);
}

void throw_no_dtype(Dtype d) {
  throw InternalError("no dtype has the number " + std::to_string(static_cast<int>(d)));
}

void throw_not_floating(Dtype d) {
  throw InternalError("an operation on floating-point tensors was given " +
                      std::string(name_of(d)));
}

}  // namespace paceline
