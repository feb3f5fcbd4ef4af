#include "core/dtype.h"

#include "core/error.h"

namespace paceline {

void throw_not_floating(Dtype d) {
  throw InternalError("an operation on floating-point tensors was given " +
                      std::string(name_of(d)));
}

}  // namespace paceline
