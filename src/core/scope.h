#pragma once
// Scope: one RAII name ("block 3", "scaled dot product attention", "computing softmax") that is at
// once the memory ledger's tag, the profiler's key and, on CUDA, an NVTX range.

#include <string>
#include <string_view>

#include "core/non_copyable.h"

namespace paceline {

// The names that are open now on a device, outermost first, joined by '/'.
class ScopeStack : NonCopyable {
 public:
  virtual ~ScopeStack() = default;

  [[nodiscard]] const std::string& path() const { return path_; }

  // Returns the length of the path before the push: what pop() wants back.
  virtual std::size_t push(std::string_view name) {
    const std::size_t before = path_.size();
    if (before > 0) path_ += '/';
    path_ += name;
    return before;
  }
  virtual void pop(std::size_t before) { path_.resize(before); }

 private:
  std::string path_;
};

class Scope : NonCopyable {
 public:
  Scope(ScopeStack& stack, std::string_view name) : stack_(stack), before_(stack.push(name)) {}
  ~Scope() { stack_.pop(before_); }

 private:
  ScopeStack& stack_;
  std::size_t before_;
};

}  // namespace paceline
