#include "core/dtype.h"

#include "core/error.h"

namespace paceline {

void throw_no_dtype(Dtype d) {
  throw InternalError("no dtype has the number " + std::to_string(static_cast<int>(d)));
}

void throw_not_floating(Dtype d) {
  throw InternalError("an operation on floating-point tensors was given " +
                      std::string(name_of(d)));
}

}  // namespace paceline
