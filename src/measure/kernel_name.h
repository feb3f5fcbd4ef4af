#pragma once
#include <string>

namespace paceline {

// A demangled name shortened for tables: without namespaces, parameters and nested template
// arguments; at most 80 characters.
[[nodiscard]] std::string short_kernel_name(const std::string& name);

}  // namespace paceline
