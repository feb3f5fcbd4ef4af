#pragma once
// ParameterStore: one flat array each for parameters, gradients and the low-precision copy, with
// equal offsets, every entry aligned to 256 bytes in each of them. Entries are in the order in
// which backward finishes their gradients, so that buckets and shards are contiguous ranges.
// Entries whose low-precision copy is read by GEMMs come first, entries read in the masters'
// precision after them. The reference's state-dict names are views of entries: fused weights (q, k,
// v; w1, w3) are one entry with several views.
//
// Gradients are kept in the dtype in which ranks exchange them (Precision::communication). If that
// is the GEMMs' dtype, GEMMs write them directly; each float32 sum is rounded once, as a cast would
// round it. Other gradients are written to a second array in Precision::gradients ("unrounded") and
// rounded before they are sent.

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

namespace paceline {

struct ParameterView {
  std::string name;  // "layers.3.attn.q_proj.weight"
  Shape shape;
  std::int64_t offset = 0;  // in elements, from the entry's start; set by the store
};

struct ParameterEntry {
  std::vector<ParameterView> views;  // contiguous, in order
  Shape shape;                       // of all views together
  int uses = 1;                 // above 1 for a tied weight, whose gradient is ready after the last
  bool full_precision = false;  // read from the masters, never from the copy: norms, the embedding
  std::string unit;             // "block 3": adjacent entries that are used together
  std::int64_t offset = 0;      // in elements, from the store's start; set by the store

  [[nodiscard]] StoreRange range() const { return {offset, shape.numel()}; }
};

// Calls f(view, its slice of `values`) for every view of every entry in `range`. `values` holds the
// range's elements; the range must not split an entry.
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

// One of the store's arrays and the scope of its memory in the ledger.
struct StoreArray {
  const char* name;
  MemoryKind kind;
  Tensor values;
};

struct StoreLayout {
  // Every group of entries is divided into `shards` parts of equal length, each aligned like an
  // entry; padding follows the group's last entry.
  int shards = 1;
  // The last entries of groups, ascending. The last entry that is not full_precision, and the last
  // entry of all, always end a group.
  std::vector<ParameterId> group_ends;
  // If set, the store keeps only this shard of every group's parameters, and no low-precision copy.
  std::optional<int> kept_shard;
  // Allocates the arrays; empty: the device does.
  std::function<Array(const Shape&, Dtype, MemoryKind)> allocate;
};

class ParameterStore {
 public:
  // Allocates parameters (and, for a mixed precision, the low-precision copy), all 0. Throws
  // OutOfMemory.
  ParameterStore(Device& device, const Precision& precision, std::vector<ParameterEntry> entries,
                 StoreLayout layout = {});

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] const std::vector<ParameterEntry>& entries() const { return entries_; }
  [[nodiscard]] std::int64_t size() const { return size_; }  // elements, padding included
  // The groups of entries in order, padding included; together they cover the store.
  [[nodiscard]] const std::vector<StoreRange>& groups() const { return groups_; }
  [[nodiscard]] StoreRange shard_of(const StoreRange& group, int rank) const;
  // The ranges of the store whose parameters this rank keeps.
  [[nodiscard]] std::vector<StoreRange> kept() const;
  // If only a shard of the parameters is kept, the result has only a gradient.
  [[nodiscard]] Parameter parameter(ParameterId id) const;
  // The padding after the entry's gradient, in the array that backward writes; empty if none.
  [[nodiscard]] Tensor gradient_padding(ParameterId id) const;
  // The elements between the entry's last and the next entry.
  [[nodiscard]] StoreRange padding_behind(ParameterId id) const;

  // Every shard's length is a multiple of this many elements.
  static constexpr std::int64_t alignment = 128;  // 256 bytes of the smallest dtype
  // Before the first backward; later calls do nothing. Throws OutOfMemory.
  void allocate_gradients();
  // The next three are called before allocate_gradients() and replace the flat gradient array by
  // smaller buffers whose memory several groups share.
  //
  // Gradients are written to a window with room for `room` times the largest group, where a group
  // is one entry that GEMMs read; it may be overwritten after its parameters were updated. Entries
  // in full precision have memory of their own. Throws InternalError if gradients are rounded.
  void recycle_gradients(int room);
  // As above with the store's groups() as groups; this rank keeps its shard of each group's sum.
  void shard_gradients(int room, int rank);
  // After shard_gradients(): the shards, too, are kept in a window, with room for `room` of them.
  void recycle_shards(int room);
  [[nodiscard]] bool has_window() const { return !window_layout_.empty(); }
  // The latest earlier group whose memory the entry's gradient overwrites; none if it has its own.
  [[nodiscard]] std::optional<StoreRange> overwritten_by(ParameterId id) const;
  // The latest earlier group whose shard the shard of `group` overwrites, if any.
  [[nodiscard]] std::optional<StoreRange> shard_overwritten_by(const StoreRange& group) const;
  // The memory that backward writes a group's gradients to, padding included.
  [[nodiscard]] Tensor written_gradients(const StoreRange& group) const;

  // What the optimizer reads and updates; the range must be kept by this rank. The copy is empty
  // unless the precision is mixed and all parameters are kept; gradients are empty before
  // allocate_gradients(). With a window, or if only a shard is kept, the range is within one group
  // (InternalError).
  [[nodiscard]] Tensor parameters(const StoreRange& range) const;
  [[nodiscard]] Tensor copy(const StoreRange& range) const { return range.of(copy_); }
  [[nodiscard]] Tensor gradients(const StoreRange& range) const;

  // The flat arrays of everything this rank keeps, in the store's order; [size()] without shards.
  [[nodiscard]] const Tensor& parameters() const { return values_; }
  [[nodiscard]] const Tensor& copy() const { return copy_; }
  // Throws InternalError if gradients are in a window.
  [[nodiscard]] const Tensor& gradients() const;

  // The allocated arrays of length size().
  [[nodiscard]] std::vector<StoreArray> flat_arrays() const;
  // All arrays that collectives read and write; those not allocated are empty.
  [[nodiscard]] std::vector<Tensor> parameter_arrays() const { return {values_, copy_}; }
  [[nodiscard]] std::vector<Tensor> gradient_arrays() const { return {gradients_, window_}; }

  // At the start of a step's backward: marks every gradient as not written.
  void begin_backward();
  // Counts one use's gradient as written; true after the entry's last use.
  bool gradient_written(ParameterId id);
  // Rounds the unrounded gradients of a range into the array that is exchanged.
  void round_gradients(Ops& ops, const StoreRange& range) const;

  // Casts the masters to the low-precision copy (after initialisation or loading).
  void refresh_copy(Ops& ops) const;

 private:
  [[nodiscard]] Array allocate(std::int64_t length, Dtype dtype, MemoryKind kind,
                               std::string_view scope) const;
  [[nodiscard]] bool rounds_in_window() const { return has_window() && unrounded_from_ == 0; }
  [[nodiscard]] Tensor unrounded(const StoreRange& range) const;
  [[nodiscard]] bool has_gradients() const { return !gradients_.empty() || !window_.empty(); }
  // The store offset from which on gradients are written to unrounded_; size() if none are.
  [[nodiscard]] std::int64_t first_unrounded() const;
  // Whether a group's gradients are needed from the step's first to its last.
  [[nodiscard]] bool stays(const StoreRange& group) const;
  void write_gradients_to_window(const std::vector<StoreRange>& groups, int room);
  // The position of a range, which is in this rank's shard of one group, in the array of the rank's
  // shards. Throws InternalError if it is not.
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
  Array gradients_;                    // all sums, or this rank's shards; empty if all are recycled
  std::optional<int> gradient_shard_;  // the rank whose shards gradients_ holds
  GradientWindow shard_window_layout_;  // of groups' shards: offsets and lengths divided by shards
  GradientWindow window_layout_;
  Array window_;  // the window that gradients are written to, instead of gradients_
  // Gradients in Precision::gradients of the elements from unrounded_from_ on: a flat array. If all
  // gradients are unrounded and window_ is used, this is a window of the same layout.
  Array unrounded_;
  std::int64_t unrounded_from_ = 0;
};

}  // namespace paceline
