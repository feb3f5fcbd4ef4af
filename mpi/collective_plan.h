#pragma once
// The checks that every communicator makes before it enqueues a collective.

#include <cstdint>
#include <string_view>

#include "core/tensor.h"

namespace paceline {

// A collective's name, and which of its tensors hold a part for every rank ("wide").
struct CollectiveForm {
  std::string_view name;
  bool wide_recv = false;
  bool wide_send = false;
};
inline constexpr CollectiveForm all_reduce_form = {.name = "all_reduce"};
inline constexpr CollectiveForm reduce_scatter_form = {.name = "reduce_scatter", .wide_send = true};
inline constexpr CollectiveForm all_gather_form = {.name = "all_gather", .wide_recv = true};
inline constexpr CollectiveForm all_to_all_form = {
    .name = "all_to_all", .wide_recv = true, .wide_send = true};
inline constexpr CollectiveForm broadcast_form = {.name = "broadcast"};
inline constexpr CollectiveForm reduce_form = {.name = "reduce"};
inline constexpr CollectiveForm send_recv_form = {.name = "send_recv"};

struct CollectivePlan {
  std::int64_t count = 0;  // elements per part
  bool in_place = false;
};

// Throws InternalError for tensors that do not fit `ranks` ranks or overlap other than in place.
[[nodiscard]] CollectivePlan plan_collective(const CollectiveForm& form, int rank, int ranks,
                                             const Tensor& recv, const Tensor& send);

// Throws InternalError unless 0 <= rank < ranks.
void check_rank(const CollectiveForm& form, int rank, int ranks);

}  // namespace paceline
