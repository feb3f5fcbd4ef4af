#pragma once

namespace paceline {

// The base of what has an identity: devices, streams, locks, interfaces.
class NonCopyable {
 public:
  NonCopyable() = default;
  NonCopyable(const NonCopyable&) = delete;
  NonCopyable& operator=(const NonCopyable&) = delete;

 protected:
  ~NonCopyable() = default;
};

}  // namespace paceline
