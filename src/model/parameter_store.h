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

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "core/parameter_access.h"
#include "core/precision.h"
#include "model/gradient_window.h"
#include "model/store_range.h"

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
  bool full_precision = false;       // never read from the copy: norms, the embedding
  std::string unit;                  // "block 3": of neighbours that are used together
  std::int64_t offset = 0;           // in elements, from the store's start; set by the store

  [[nodiscard]] StoreRange range() const { return {offset, shape.numel()}; }
};

// Calls f(view, slice of `values`) for the views of every entry in a range of the store, of which
// `values` are. The range cuts no entry.
template <class F>
void for_each_view(const std::vector<ParameterEntry>& entries, const StoreRange& range,
                   const Tensor& values, F&& f) {
  for (const ParameterEntry& entry : entries) {
    if (intersection(entry.range(), range).length == 0) continue;
    for (const ParameterView& view : entry.views) {
      f(view, values.slice(entry.offset + view.offset - range.offset, view.shape));
    }
  }
}

// One of the store's arrays, under the name that its memory has in the ledger.
struct StoreArray {
  const char* name;
  MemoryKind kind;
  Tensor values;
};

struct StoreLayout {
  // Groups of entries are cut into `shards` parts of equal length, each aligned like an entry; a
  // group's padding stands behind its last entry.
  int shards = 1;
  // The last entries of groups, in order. The last that is not read in full precision, and the last
  // of all, end a group in any case.
  std::vector<ParameterId> group_ends;
  // Of the parameters only this shard of every group is kept, and no copy of it; none: all are.
  std::optional<int> kept_shard;
  // Where the arrays are allocated, if not by the device.
  std::function<Array(const Shape&, Dtype, MemoryKind)> allocate;
};

class ParameterStore {
 public:
  // Allocates parameters (and the low-precision copy of a mixed precision), not initialised but for
  // the padding between entries, which is 0. Throws OutOfMemory.
  ParameterStore(Device& device, const Precision& precision, std::vector<ParameterEntry> entries,
                 StoreLayout layout = {});

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] const std::vector<ParameterEntry>& entries() const { return entries_; }
  [[nodiscard]] std::int64_t size() const { return size_; }  // elements, padding included
  // All of the store, in order, padding included.
  [[nodiscard]] const std::vector<StoreRange>& groups() const { return groups_; }
  [[nodiscard]] StoreRange shard_of(const StoreRange& group, int rank) const;
  // What of the parameters is kept.
  [[nodiscard]] std::vector<StoreRange> kept() const;
  // Where only a shard of the parameters is kept, the result has a gradient alone.
  [[nodiscard]] Parameter parameter(ParameterId id) const;
  // What pads the entry's gradient, where that is written; empty if nothing does.
  [[nodiscard]] Tensor gradient_padding(ParameterId id) const;
  // Between the entry's last element and the next entry.
  [[nodiscard]] StoreRange padding_behind(ParameterId id) const;

  // Elements that every shard's length is a multiple of.
  static constexpr std::int64_t alignment = 128;  // 256 bytes of the smallest dtype
  // Before the first backward; later calls do nothing. Throws OutOfMemory.
  void allocate_gradients();
  // Instead of a flat array, before allocate_gradients(): gradients are written to a window with
  // room for `room` times the largest group. Of a precision whose gradients are kept as they are
  // written, each entry that products read is a group of its own here, which lies there until its
  // parameters are updated; the others keep places of their own.
  void recycle_gradients(int room);
  // The same of the store's groups, of whose sums this rank keeps its shard.
  void shard_gradients(int room, int rank);
  // After shard_gradients(): a group's shard lies in memory that is another's later on, too.
  void recycle_shards(int room);
  [[nodiscard]] bool recycles_gradients() const { return !window_places_.empty(); }
  // The last group that lay where the entry's group is to lie; none for those with own places.
  [[nodiscard]] std::optional<StoreRange> overwritten_by(ParameterId id) const;
  // Of shards: the last group whose shard lay where this one's is to lie.
  [[nodiscard]] std::optional<StoreRange> shard_overwritten_by(const StoreRange& group) const;
  // Where a group's gradients are written, padding included.
  [[nodiscard]] Tensor written_gradients(const StoreRange& group) const;

  // What the optimizer reads and updates, of a range that is kept. The copy is empty unless the
  // precision is mixed and all parameters are kept; gradients before allocate_gradients(). Where
  // gradients lie in a window, or only a shard is kept, the range is within one group.
  [[nodiscard]] Tensor parameters(const StoreRange& range) const;
  [[nodiscard]] Tensor copy(const StoreRange& range) const { return range.of(copy_); }
  [[nodiscard]] Tensor gradients(const StoreRange& range) const;

  // All that is kept, in the store's order: flat arrays, [size()] where nothing is left out.
  [[nodiscard]] const Tensor& parameters() const { return values_; }
  [[nodiscard]] const Tensor& copy() const { return copy_; }
  // Throws InternalError where they are in a window.
  [[nodiscard]] const Tensor& gradients() const;

  // Those [size()] that are there.
  [[nodiscard]] std::vector<StoreArray> flat_arrays() const;
  // All that collectives read and write; what is not there is empty.
  [[nodiscard]] std::vector<Tensor> parameter_arrays() const { return {values_, copy_}; }
  [[nodiscard]] std::vector<Tensor> gradient_arrays() const { return {gradients_, window_}; }

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
  [[nodiscard]] Array allocate(std::int64_t length, Dtype dtype, MemoryKind kind,
                               std::string_view scope) const;
  [[nodiscard]] bool rounds_in_window() const {
    return recycles_gradients() && unrounded_from_ == 0;
  }
  [[nodiscard]] Tensor unrounded(const StoreRange& range) const;
  [[nodiscard]] bool has_gradients() const { return !gradients_.empty() || !window_.empty(); }
  // Where the gradients begin that are written beside those that are exchanged.
  [[nodiscard]] std::int64_t first_unrounded() const;
  // Whether a group's gradients are there from the step's first to its last.
  [[nodiscard]] bool stays(const StoreRange& group) const;
  void write_gradients_to_window(const std::vector<StoreRange>& groups, int room);
  // Where a range of this rank's shard of one group lies in an array of such shards.
  [[nodiscard]] StoreRange within_shards(const StoreRange& range, int rank) const;

  Device& device_;
  Precision precision_;
  StoreLayout layout_;
  std::vector<ParameterEntry> entries_;
  std::vector<int> written_;
  std::int64_t size_ = 0;
  std::vector<StoreRange> groups_;
  Array values_;
  Array copy_;
  Array gradients_;                    // sums of all, or of a shard; none where all are recycled
  std::optional<int> gradient_shard_;  // that gradients_ is of
  GradientWindow shard_places_;        // of groups' shards, offsets and lengths divided
  GradientWindow window_places_;
  Array window_;  // that gradients are written to, if not to gradients_
  // Gradients as Precision::gradients, of what lies from there on: a flat array; of all, where
  // those that are exchanged have a window, another window.
  Array unrounded_;
  std::int64_t unrounded_from_ = 0;
};

}  // namespace paceline
