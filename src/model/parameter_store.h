#pragma once
// ParameterStore: one flat array each for parameters, gradients, Adam's m and v and the
// low-precision copy, with equal offsets, every entry aligned to 256 bytes in each of them. Entries
// lie in the order in which backward finishes their gradients, so that buckets and shards are
// ranges. The reference's state-dict names are views of entries: fused weights (q, k, v; w1, w3)
// are one entry with several views.

#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "core/parameter.h"
#include "core/parameter_sync.h"
#include "core/precision.h"

namespace paceline {

struct ParameterView {
  std::string name;  // "layers.3.attn.q_proj.weight"
  Shape shape;
  std::int64_t offset = 0;  // in elements, from the entry's start; set by the store
};

struct ParameterEntry {
  std::vector<ParameterView> views;  // one after the other, without gaps
  Shape shape;                       // of all views together
  int uses = 1;                      // a tied weight has more: its gradient is ready after the last
  std::int64_t offset = 0;           // in elements, from the store's start; set by the store
};

class ParameterStore {
 public:
  // Allocates parameters (and the low-precision copy of a mixed precision), not initialised but for
  // the padding between entries, which is 0. Throws OutOfMemory.
  ParameterStore(Device& device, const Precision& precision, std::vector<ParameterEntry> entries);

  [[nodiscard]] const std::vector<ParameterEntry>& entries() const { return entries_; }
  [[nodiscard]] std::int64_t size() const { return size_; }  // elements, padding included
  [[nodiscard]] Parameter parameter(ParameterId id) const;

  // Before the first backward and the first optimizer step; later calls do nothing. Adam's state
  // starts at 0. Throws OutOfMemory.
  void allocate_gradients();
  void allocate_optimizer_state();
  // Adam's state as before the first step; nothing where it is not allocated.
  void reset_optimizer_state() const;

  // Flat arrays [size()]; empty where not allocated.
  [[nodiscard]] AdamWRange range() const;

  // The slice of a flat array that a view names.
  [[nodiscard]] Tensor slice(const Tensor& flat, const ParameterEntry& entry,
                             const ParameterView& view) const;

  // A step's backward begins: no gradient is written yet.
  void begin_backward();
  // One use's gradient was written; true after the last use.
  bool gradient_written(ParameterId id);

  // The low-precision copy follows the masters (after initialisation or loading).
  void refresh_copy(Ops& ops) const;

 private:
  [[nodiscard]] Array allocate_zeroed(MemoryKind kind, std::string_view scope) const;

  Device& device_;
  Precision precision_;
  std::vector<ParameterEntry> entries_;
  std::vector<int> written_;
  std::int64_t size_ = 0;
  Array values_;
  Array copy_;
  Array gradients_;
  Array m_;
  Array v_;
};

}  // namespace paceline
