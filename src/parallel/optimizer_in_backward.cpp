#include "parallel/optimizer_in_backward.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace paceline {

void OptimizerInBackward::begin() {
  updates_.clear();
  offered_.clear();
  Device& device = ops_.device();
  optimizer_.allocate(device);
  optimizer_.begin(ops_, state_);
  device.optimizer_stream().follow(device.compute_stream());
}

WeightUpdate* OptimizerInBackward::offer(const StoreRange& range) {
  if (!allows_fusion_) return nullptr;
  const std::optional<WeightUpdate> update = optimizer_.weight_update(state_, range);
  return update ? &offered_.insert_or_assign(range.offset, *update).first->second : nullptr;
}

void OptimizerInBackward::update(const StoreRange& range, Stream& after) {
  const auto offered = offered_.find(range.offset);
  if (offered != offered_.end() && offered->second.taken) {
    updates_.push_back({range, nullptr, nullptr});
    return;
  }
  Stream& stream = ops_.device().optimizer_stream();
  stream.follow(after);
  const Scope scope(ops_.device().scopes(), optimizer_.name(),
                    {.bytes = optimizer_.update_bytes(range), .stream = &stream});
  EventPtr begin = stream.record();
  ops_.on(stream, [this, range] { optimizer_.update(ops_, state_, range); });
  updates_.push_back({range, std::move(begin), stream.record()});
}

void OptimizerInBackward::wait_for_update(Stream& stream, const StoreRange& range) const {
  const auto update = std::find_if(updates_.rbegin(), updates_.rend(),
                                   [&](const Update& u) { return u.range.offset == range.offset; });
  if (update == updates_.rend()) throw InternalError("a range was not updated yet");
  const auto on_stream =
      std::find_if(update, updates_.rend(), [](const Update& u) { return !u.fused(); });
  if (on_stream != updates_.rend()) stream.wait(on_stream->end);
}

void OptimizerInBackward::finish(const std::vector<ParameterEntry>& entries) {
  Device& device = ops_.device();
  std::vector<StoreRange> updated;
  for (const Update& u : updates_) updated.push_back(u.range);
  std::sort(updated.begin(), updated.end(),
            [](const StoreRange& a, const StoreRange& b) { return a.offset < b.offset; });
  for (const ParameterEntry& entry : entries) {
    StoreRange left = entry.range();
    const auto update_until = [&](std::int64_t end) {
      const StoreRange part = intersection(left, {left.offset, end - left.offset});
      if (part.length > 0) update(part, device.compute_stream());
    };
    for (const StoreRange& range : updated) {
      if (intersection(left, range).length == 0) continue;
      update_until(range.offset);
      const std::int64_t from = range.offset + range.length;
      left = {from, std::max<std::int64_t>(0, left.offset + left.length - from)};
    }
    update_until(left.offset + left.length);
  }
  device.compute_stream().follow(device.optimizer_stream());
  optimizer_.end(ops_, state_);
}

}  // namespace paceline
