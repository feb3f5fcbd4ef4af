#pragma once
#include <string>

namespace paceline {

// A mangled name as it was written: "paceline::rms_norm_kernel<float, 4>(float*, ...)". What is not
// mangled stays.
[[nodiscard]] std::string demangled(const std::string& name);

// A demangled name as a table shows it: without namespaces, parameters, and template arguments
// within template arguments; at most 80 characters.
[[nodiscard]] std::string short_kernel_name(const std::string& name);

}  // namespace paceline
