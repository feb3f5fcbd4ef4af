#include "mpi/collective_plan.h"

#include <fmt/format.h>

#include <cstddef>
#include <functional>

#include "core/error.h"

namespace paceline {

namespace {

[[noreturn]] void throw_unfit(const CollectiveForm& form, const Tensor& recv, const Tensor& send,
                              std::string_view why) {
  throw InternalError(fmt::format("{} of {} {} into {} {}: {}", form.name, name_of(send.dtype),
                                  send.shape.str(), name_of(recv.dtype), recv.shape.str(), why));
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto* first = static_cast<const std::byte*>(a.data);
  const auto* second = static_cast<const std::byte*>(b.data);
  const std::less<> before;
  return before(first, second + b.bytes()) && before(second, first + a.bytes());
}

}  // namespace

CollectivePlan plan_collective(const CollectiveForm& form, int rank, int ranks, const Tensor& recv,
                               const Tensor& send) {
  const std::int64_t recv_parts = form.wide_recv ? ranks : 1;
  const std::int64_t send_parts = form.wide_send ? ranks : 1;
  const std::int64_t count = recv.numel() / recv_parts;
  if (recv.dtype != send.dtype) throw_unfit(form, recv, send, "the types differ");
  if (recv.numel() != count * recv_parts || send.numel() != count * send_parts) {
    throw_unfit(form, recv, send, fmt::format("the sizes do not fit {} ranks", ranks));
  }
  // If only one tensor is wide: in place means that the other one is this rank's slice of it.
  const auto slice = [&](const Tensor& x, bool sliced) {
    return x.slice(sliced ? rank * count : 0, {count});
  };
  const bool in_place = slice(recv, form.wide_recv && !form.wide_send).data ==
                        slice(send, form.wide_send && !form.wide_recv).data;
  if (!in_place && overlap(recv, send)) throw_unfit(form, recv, send, "they overlap");
  return {.count = count, .in_place = in_place};
}

void check_rank(const CollectiveForm& form, int rank, int ranks) {
  if (rank >= 0 && rank < ranks) return;
  throw InternalError(fmt::format("{}: there is no rank {} among {}", form.name, rank, ranks));
}

}  // namespace paceline
