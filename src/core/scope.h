#pragma once
// Scope: an RAII name ("block 3", "scaled dot product attention", "computing softmax"). It is the
// memory ledger's tag, the profiler's key and, on CUDA, an NVTX range.

#include <array>
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

// The minimum work of an operation, and its stream.
struct OpWork {
  double flops = 0;
  double bytes = 0;           // read and written
  Stream* stream = nullptr;   // null: the device's compute stream
  std::int64_t elements = 0;  // collectives: elements that each rank sends
  Dtype dtype = Dtype::f32;   // collectives: their dtype
  // Operations of Ops: of the first two tensors, the result first.
  std::array<Dtype, 2> dtypes{};
};

// The index of a scope's path; 0: outside every scope.
using ScopeId = std::size_t;

struct ScopePath {
  std::string name;
  std::string text;    // the names from the outermost to this one, joined by '/'
  ScopeId region = 0;  // itself; for an operation, the enclosing region
  std::vector<ScopeId> inner = {};
  std::size_t next = 0;  // index in `inner` of the scope that is probably entered next
};

// Is notified when scopes are entered and left.
class ScopeListener : NonCopyable {
 public:
  virtual ~ScopeListener() = default;

  // work: the operation's work; null: a region, such as "block 3".
  virtual void entered(ScopeId scope, const OpWork* work) = 0;
  virtual void left() = 0;
};

// The scopes that are open on a device. Used by one thread.
class ScopeStack : NonCopyable {
 public:
  virtual ~ScopeStack() = default;

  // The path of the innermost open region, to which allocations are attributed.
  [[nodiscard]] const std::string& path() const { return paths_[paths_[current_].region].text; }
  // The paths of all scopes that were ever entered, by ScopeId.
  [[nodiscard]] const std::deque<ScopePath>& paths() const { return paths_; }
  void enter(std::string_view name, const OpWork* work);
  void leave();
  // Null: no listener.
  void set_listener(ScopeListener* listener) { listener_ = listener; }

 protected:
  // Show the scope to external tools (NVTX).
  virtual void show(ScopeId /*scope*/) {}
  virtual void hide() {}

 private:
  [[nodiscard]] ScopeId inner(std::string_view name, bool is_region);

  std::deque<ScopePath> paths_ = {{.name = "", .text = ""}};
  std::vector<ScopeId> outer_;  // the scopes around the current one
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
