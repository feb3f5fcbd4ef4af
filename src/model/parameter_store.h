#pragma once
// ParameterStore: one flat array each for parameters, gradients and the low-precision copy, with
// equal offsets, every entry aligned to 256 bytes in each of them. Entries lie in the order in
// which backward finishes their gradients, so that buckets and shards are ranges; first those of
// which matrix products read the copy, then those that are read in the masters' precision. The
// reference's state-dict names are views of entries: fused weights (q, k, v; w1, w3) are one entry
// with several views.
//
// Gradients are kept as ranks exchange them (Precision::communication). Where that is what products
// compute in, products write them so: their sums are rounded once, as a cast of float32 sums would.
// Other gradients are written as Precision::gradients, beside, and rounded before they are sent.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "core/parameter_access.h"
#include "core/precision.h"

namespace paceline {

// Elements of the store's arrays.
struct StoreRange {
  std::int64_t offset = 0;
  std::int64_t length = 0;

  [[nodiscard]] Tensor of(const Tensor& flat) const {
    return flat.empty() ? flat : flat.slice(offset, {length});
  }
};

struct ParameterView {
  std::string name;  // "layers.3.attn.q_proj.weight"
  Shape shape;
  std::int64_t offset = 0;  // in elements, from the entry's start; set by the store
};

struct ParameterEntry {
  std::vector<ParameterView> views;  // one after the other, without gaps
  Shape shape;                       // of all views together
  int uses = 1;                      // a tied weight has more: its gradient is ready after the last
  bool full_precision = false;       // never read from the copy: norms, the embedding
  std::int64_t offset = 0;           // in elements, from the store's start; set by the store

  [[nodiscard]] StoreRange range() const { return {offset, shape.numel()}; }
};

// An array [ParameterStore::size()], under the name that its memory has in the ledger.
struct StoreArray {
  const char* name;
  MemoryKind kind;
  Tensor values;
};

struct StoreLayout {
  // The entries read in full precision start at, and the store ends at, a multiple of what so many
  // shards have when each is aligned like an entry.
  int shards = 1;
  // Where the flat arrays are allocated, if not by the device.
  std::function<Array(const Shape&, Dtype, MemoryKind)> allocate;
};

class ParameterStore {
 public:
  // Allocates parameters (and the low-precision copy of a mixed precision), not initialised but for
  // the padding between entries, which is 0. Throws OutOfMemory.
  ParameterStore(Device& device, const Precision& precision, std::vector<ParameterEntry> entries,
                 StoreLayout layout = {});

  [[nodiscard]] const std::vector<ParameterEntry>& entries() const { return entries_; }
  [[nodiscard]] std::int64_t size() const { return size_; }  // elements, padding included
  [[nodiscard]] Parameter parameter(ParameterId id) const;

  // Elements that every shard's length is a multiple of.
  static constexpr std::int64_t alignment = 128;  // 256 bytes of the smallest dtype

  // Before the first backward; later calls do nothing. Throws OutOfMemory.
  void allocate_gradients();

  // Flat arrays [size()].
  [[nodiscard]] const Tensor& parameters() const { return values_; }
  [[nodiscard]] const Tensor& copy() const { return copy_; }  // empty unless the precision is mixed
  // As ranks exchange them and the optimizer reads them; empty before allocate_gradients().
  [[nodiscard]] const Tensor& gradients() const { return gradients_; }

  // All that are there.
  [[nodiscard]] std::vector<StoreArray> flat_arrays() const;

  // The slice of a flat array that a view names.
  [[nodiscard]] Tensor slice(const Tensor& flat, const ParameterEntry& entry,
                             const ParameterView& view) const;

  // A step's backward begins: no gradient is written yet.
  void begin_backward();
  // One use's gradient was written; true after the last use.
  bool gradient_written(ParameterId id);
  // Those of a range that were written beside gradients() are rounded into it.
  void round_gradients(Ops& ops, const StoreRange& range) const;

  // The low-precision copy follows the masters (after initialisation or loading).
  void refresh_copy(Ops& ops) const;

 private:
  [[nodiscard]] Array allocate(Dtype dtype, MemoryKind kind, std::string_view scope) const;
  // Where the gradients begin that are written beside gradients().
  [[nodiscard]] std::int64_t first_unrounded() const;

  Device& device_;
  Precision precision_;
  StoreLayout layout_;
  std::vector<ParameterEntry> entries_;
  std::vector<int> written_;
  std::int64_t size_ = 0;
  Array values_;
  Array copy_;
  Array gradients_;
  Array unrounded_;  // [size() - unrounded_from_], gradients as Precision::gradients
  std::int64_t unrounded_from_ = 0;
};

}  // namespace paceline
