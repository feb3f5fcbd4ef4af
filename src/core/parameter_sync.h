#pragma once
// ParameterSync: the hooks that forward and backward call, in the order in which parameters are
// used and their gradients become ready. A strategy of data parallelism is one implementation.

#include <cstddef>

namespace paceline {

using ParameterId = std::size_t;  // an entry of the ParameterStore

class ParameterSync {
 public:
  ParameterSync() = default;
  ParameterSync(const ParameterSync&) = delete;
  ParameterSync& operator=(const ParameterSync&) = delete;
  virtual ~ParameterSync() = default;

  virtual void begin_step() {}
  virtual void before_use(ParameterId /*parameter*/) {}  // forward is about to read it
  virtual void ready(ParameterId /*parameter*/) {}       // backward wrote its gradient's last part
  virtual void finish() {}   // every gradient is what the optimizer is to see
  virtual void updated() {}  // the optimizer has run

  [[nodiscard]] virtual bool communicates() const { return false; }
};

}  // namespace paceline
