#pragma once
// Scope: one RAII name ("block 3", "scaled dot product attention", "computing softmax") that is at
// once the memory ledger's tag, the profiler's key and, on CUDA, an NVTX range.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/non_copyable.h"

namespace paceline {

class Stream;

// What an operation does at least, and where.
struct OpWork {
  double flops = 0;
  double bytes = 0;           // read and written
  Stream* stream = nullptr;   // null: the device's compute stream
  std::int64_t elements = 0;  // of a collective: what each rank sends
  Dtype dtype = Dtype::f32;   // of those
};

// The number of a scope's path; 0: outside every scope.
using ScopeId = std::size_t;

struct ScopePath {
  std::string name;
  std::string text;    // the names from the outermost on, joined by '/'
  ScopeId region = 0;  // itself, or of an operation the region around it
  std::vector<ScopeId> inner = {};
  std::size_t next = 0;  // the place in `inner` that is probably entered next
};

// Told of scopes as they are entered and left.
class ScopeListener : NonCopyable {
 public:
  virtual ~ScopeListener() = default;

  // work: of an operation; null: a region, such as "block 3".
  virtual void entered(ScopeId scope, const OpWork* work) = 0;
  virtual void left() = 0;
};

// The scopes that are open now on a device. One thread enters and leaves them.
class ScopeStack : NonCopyable {
 public:
  virtual ~ScopeStack() = default;

  // Of the innermost open region, which memory is counted to.
  [[nodiscard]] const std::string& path() const { return paths_[paths_[current_].region].text; }
  // Of every scope that was ever entered, by ScopeId.
  [[nodiscard]] const std::deque<ScopePath>& paths() const { return paths_; }
  void enter(std::string_view name, const OpWork* work);
  void leave();
  // Null: nobody listens.
  void set_listener(ScopeListener* listener) { listener_ = listener; }

 protected:
  // The device shows the scope to tools of its own.
  virtual void show(ScopeId /*scope*/) {}
  virtual void hide() {}

 private:
  [[nodiscard]] ScopeId inner(std::string_view name, bool is_region);

  std::deque<ScopePath> paths_ = {{.name = "", .text = ""}};
  std::vector<ScopeId> outer_;  // those around the current one
  ScopeId current_ = 0;
  ScopeListener* listener_ = nullptr;
};

class Scope : NonCopyable {
 public:
  // A region.
  Scope(ScopeStack& stack, std::string_view name) : stack_(stack) { stack.enter(name, nullptr); }
  // One operation.
  Scope(ScopeStack& stack, std::string_view name, const OpWork& work) : stack_(stack) {
    stack.enter(name, &work);
  }
  ~Scope() { stack_.leave(); }

 private:
  ScopeStack& stack_;
};

}  // namespace paceline
