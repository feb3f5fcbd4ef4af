#pragma once
#include <string>

namespace paceline {

// The demangled name: "paceline::rms_norm_kernel<float, 4>(float*, ...)". Names that are not
// mangled are returned unchanged.
[[nodiscard]] std::string demangled(const std::string& name);

}  // namespace paceline
