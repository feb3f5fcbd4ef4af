#pragma once
#include <cstdlib>
#include <optional>
#include <string>

#include "core/non_copyable.h"

namespace paceline {

// Sets a variable to the value, or unsets it if the value is null, until the end of the scope.
class EnvironmentVariable : NonCopyable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~EnvironmentVariable() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }

  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace paceline
