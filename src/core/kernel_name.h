#pragma once
#include <string>

namespace paceline {

// The demangled name: "paceline::rms_norm_kernel<float, 4>(float*, ...)". Names that are not
// mangled are returned unchanged.
[[nodiscard]] std::string demangled(const std::string& name);

// A demangled name shortened for tables: without namespaces, parameters and nested template
// arguments; at most 80 characters.
[[nodiscard]] std::string short_kernel_name(const std::string& name);

}  // namespace paceline
