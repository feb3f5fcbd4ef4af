#pragma once
#include "core/parameter_sync.h"

namespace paceline {

// Every rank trains its own replica: gradients are not exchanged.
class NoSync final : public ParameterSync {};

}  // namespace paceline
