#include "mpi/host_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/units.h"
#include "mpi/check.h"
#include "mpi/collective_plan.h"
#include "mpi/communicator_of.h"
#include "mpi/reduce_ops.h"

namespace paceline {

namespace {

struct Plan : CollectivePlan {
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

constexpr int tag = 0;

// Large tensors are sent in pieces, which stay in the cache between the sums of successive ranks:
// 100 MB among 4 ranks take less than half the time of a single call (NOTES.md).
constexpr std::size_t piece_bytes = std::size_t{1} << 20U;

struct Piece {
  std::int64_t first;
  int count;  // elements
  [[nodiscard]] Tensor of(const Tensor& x) const {
    return x.reshape({x.numel()}).slice(first, {count});
  }
};

std::vector<Piece> pieces_of(const Tensor& x) {
  const auto most = static_cast<std::int64_t>(piece_bytes / size_of(x.dtype));
  std::vector<Piece> pieces;
  for (std::int64_t first = 0; first < x.numel(); first += most) {
    pieces.push_back({first, static_cast<int>(std::min(most, x.numel() - first))});
  }
  return pieces;
}

// The element count of the whole tensor must fit an int, not only that of a part: Open MPI
// multiplies counts as ints internally.
void check_count(const CollectiveForm& form, const Tensor& x) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (x.numel() <= most) return;
  throw UsageError(
      fmt::format("{} of {} elements: MPI takes at most {} in a call; use smaller tensors",
                  form.name, x.numel(), most));
}

class HostCommunicator final : public Communicator {
 public:
  // Collective over `group`. The communicator has an MPI communicator of its own, so that its
  // messages match no others.
  HostCommunicator(MPI_Comm group, Watchdog& watchdog, Device& device, Stream& stream)
      : watchdog_(watchdog), device_(device), stream_(stream) {
    const WatchdogScope watchdog_scope(watchdog, "making a host communicator", WaitFor::ranks);
    MPI_CHECK(MPI_Comm_dup(group, &comm_));
    MPI_CHECK(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
    MPI_CHECK(MPI_Comm_size(comm_, &size_));
  }
  // Waits for an event, not for the stream: an error is left to the next synchronize() of the
  // stream.
  ~HostCommunicator() override {
    stream_.record()->synchronize();
    MPI_Comm_free(&comm_);
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] BackendKind backend() const override { return BackendKind::mpi; }
  [[nodiscard]] Stream& stream() override { return stream_; }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate(Stream& stream) override {
    return std::make_unique<HostCommunicator>(comm_, watchdog_, device_, stream);
  }

  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override {
    return device_.allocate(shape, dtype, kind);
  }
  [[nodiscard]] std::shared_ptr<void> register_memory(const Tensor& /*memory*/) override {
    return nullptr;  // MPI needs no registration
  }

  void all_reduce(Tensor recv, Tensor send, ReduceOp op) override {
    enqueue(all_reduce_form, recv, send, [=, this](const Plan& p) {
      for (const Piece& piece : pieces_of(recv)) {
        const Tensor to = piece.of(recv);
        MPI_CHECK(MPI_Allreduce(p.in_place ? MPI_IN_PLACE : piece.of(send).data, to.data,
                                piece.count, p.type, ops_.of(op, recv.dtype), comm_));
        finish(op, to);
      }
    });
  }
  // Pairwise exchange: each rank receives its part from one rank after the other and adds it up.
  // Open MPI 4.1 would reduce everything on rank 0.
  void reduce_scatter(Tensor recv, Tensor send, ReduceOp op) override {
    enqueue(reduce_scatter_form, recv, send, [=, this](const Plan& p) {
      const auto part = [&](int rank) { return send.slice(rank * p.count, {p.count}); };
      if (!p.in_place) std::memcpy(recv.data, part(rank_).data, recv.bytes());
      for (int distance = 1; distance < size_; ++distance) {
        const int to = (rank_ + distance) % size_;
        const int from = (rank_ + size_ - distance) % size_;
        for (const Piece& piece : pieces_of(recv)) {
          MPI_CHECK(MPI_Sendrecv(piece.of(part(to)).data, piece.count, p.type, to, tag,
                                 received_.data(), piece.count, p.type, from, tag, comm_,
                                 MPI_STATUS_IGNORE));
          MPI_CHECK(MPI_Reduce_local(received_.data(), piece.of(recv).data, piece.count, p.type,
                                     ops_.of(op, recv.dtype)));
        }
      }
      finish(op, recv);
    });
  }
  void all_gather(Tensor recv, Tensor send) override {
    check_count(all_gather_form, recv);
    enqueue(all_gather_form, recv, send, [=, this](const Plan& p) {
      const void* from = p.in_place ? MPI_IN_PLACE : send.data;
      const auto count = static_cast<int>(p.count);
      MPI_CHECK(MPI_Allgather(from, count, p.type, recv.data, count, p.type, comm_));
    });
  }
  void broadcast(Tensor data, int root) override {
    check_rank(broadcast_form, root, size_);
    enqueue(broadcast_form, data, data, [=, this](const Plan& p) {
      for (const Piece& piece : pieces_of(data)) {
        MPI_CHECK(MPI_Bcast(piece.of(data).data, piece.count, p.type, root, comm_));
      }
    });
  }
  void reduce(Tensor recv, Tensor send, ReduceOp op, int root) override {
    check_rank(reduce_form, root, size_);
    const bool has_result = rank_ == root;
    const Tensor& checked = !has_result && recv.empty() ? send : recv;
    enqueue(reduce_form, checked, send, [=, this](const Plan& p) {
      for (const Piece& piece : pieces_of(send)) {
        const void* from = p.in_place && has_result ? MPI_IN_PLACE : piece.of(send).data;
        void* to = has_result ? piece.of(recv).data : nullptr;
        MPI_CHECK(MPI_Reduce(from, to, piece.count, p.type, ops_.of(op, send.dtype), root, comm_));
        if (has_result) finish(op, piece.of(recv));
      }
    });
  }
  void all_to_all(Tensor recv, Tensor send) override {
    check_count(all_to_all_form, recv);
    enqueue(all_to_all_form, recv, send, [=, this](const Plan& p) {
      const void* from = p.in_place ? MPI_IN_PLACE : send.data;
      const auto count = static_cast<int>(p.count);
      MPI_CHECK(MPI_Alltoall(from, count, p.type, recv.data, count, p.type, comm_));
    });
  }
  void send_recv(Tensor recv, int source, Tensor send, int destination) override {
    check_rank(send_recv_form, source, size_);
    check_rank(send_recv_form, destination, size_);
    check_count(send_recv_form, recv);
    enqueue(send_recv_form, recv, send, [=, this](const Plan& p) {
      const auto count = static_cast<int>(p.count);
      if (p.in_place) {
        MPI_CHECK(MPI_Sendrecv_replace(recv.data, count, p.type, destination, tag, source, tag,
                                       comm_, MPI_STATUS_IGNORE));
        return;
      }
      MPI_CHECK(MPI_Sendrecv(send.data, count, p.type, destination, tag, recv.data, count, p.type,
                             source, tag, comm_, MPI_STATUS_IGNORE));
    });
  }

 private:
  // Checks the tensors, then runs call(plan) on the stream's thread, in a WatchdogScope.
  template <class Call>
  void enqueue(const CollectiveForm& form, const Tensor& recv, const Tensor& send, Call call) {
    const Plan p{plan_collective(form, rank_, size_, recv, send), mpi_type(recv.dtype)};
    const auto bytes = static_cast<double>(std::max(recv.bytes(), send.bytes()));
    stream_.enqueue([this, p, call, what = fmt::format("{} of {}", form.name, bytes_text(bytes))] {
      const WatchdogScope watchdog_scope(watchdog_, what, WaitFor::ranks);
      call(p);
    });
  }
  void finish(ReduceOp op, const Tensor& result) const {
    if (op == ReduceOp::avg) divide(result, size_);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  const ReduceOps ops_;
  Watchdog& watchdog_;
  Device& device_;
  Stream& stream_;
  std::vector<std::byte> received_ =
      std::vector<std::byte>(piece_bytes);  // used by the stream's thread
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> make_host_communicator(World& world, Device& device) {
  return std::make_unique<HostCommunicator>(communicator_of(world), world.watchdog(), device,
                                            device.communication_stream());
}

}  // namespace paceline
