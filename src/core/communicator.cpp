#include "core/communicator.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"

namespace paceline {

namespace {
constexpr std::array<std::string_view, 5> names = {"sum", "prod", "min", "max", "avg"};
}

std::string_view name_of(ReduceOp op) { return names.at(static_cast<std::size_t>(op)); }

ReduceOp reduce_op_named(std::string_view name) {
  const auto* const it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) throw InternalError("'" + std::string(name) + "' is no reduction");
  return static_cast<ReduceOp>(it - names.begin());
}

}  // namespace paceline
