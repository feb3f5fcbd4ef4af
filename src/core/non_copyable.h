#pragma once

namespace paceline {

// Base class of types that must not be copied: devices, streams, locks, interfaces.
class NonCopyable {
 public:
  NonCopyable() = default;
  NonCopyable(const NonCopyable&) = delete;
  NonCopyable& operator=(const NonCopyable&) = delete;

 protected:
  ~NonCopyable() = default;
};

}  // namespace paceline
