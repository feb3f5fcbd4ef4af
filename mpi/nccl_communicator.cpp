#include "mpi/nccl_communicator.h"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/non_copyable.h"
#include "cuda/cuda_backend.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/current_device.h"
#include "mpi/collective_plan.h"
#include "mpi/nccl_memory.h"

namespace paceline {

namespace {

// After an unrecoverable error, every CUDA call fails.
bool gpu_works() {
  std::size_t free = 0;
  std::size_t total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess;
}

// Bytes that the device's own allocations and NCCL can have together.
std::size_t available_memory(GpuDevice& device) {
  return std::min(device.info().memory_bytes, device.ledger().bytes() + free_memory());
}

// Throws OutOfMemory if NCCL's last warning reports a failed allocation and the GPU still works.
// NCCL does not say which call the warning belongs to.
void throw_unless_nccl_success(ncclResult_t result, const char* call, GpuDevice& device) {
  if (result == ncclSuccess) return;
  const std::string warning = ncclGetLastError(nullptr);
  const std::optional<std::size_t> lacking = failed_allocation_bytes(warning);
  const bool by_system = result == ncclUnhandledCudaError || result == ncclSystemError;
  if (by_system && lacking && gpu_works()) {
    const std::string_view text = call;
    throw OutOfMemory(*lacking, device.ledger(), available_memory(device),
                      std::string(text.substr(0, text.find('('))));
  }
  throw Error(ExitCode::collective, fmt::format("{} failed: {} ({}); NCCL_DEBUG=WARN says more",
                                                call, ncclGetErrorString(result), warning));
}

#define NCCL_CHECK(device, call) throw_unless_nccl_success((call), #call, device)

// Ends NCCL's group also where a call in it throws.
class Group : NonCopyable {
 public:
  explicit Group(GpuDevice& device) : device_(device) { NCCL_CHECK(device_, ncclGroupStart()); }
  ~Group() {
    if (!ended_) ncclGroupEnd();
  }
  void end() {
    ended_ = true;
    NCCL_CHECK(device_, ncclGroupEnd());
  }

 private:
  GpuDevice& device_;
  bool ended_ = false;
};

ncclDataType_t nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return ncclFloat64;
    case Dtype::f32: return ncclFloat32;
    case Dtype::bf16: return ncclBfloat16;
    case Dtype::f16: return ncclFloat16;
    case Dtype::i32: return ncclInt32;
  }
  throw InternalError("NCCL has no such dtype");
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::prod: return ncclProd;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::avg: return ncclAvg;
  }
  throw InternalError("NCCL has no such reduction");
}

std::byte* part(const Tensor& x, int rank, std::int64_t count) {
  return static_cast<std::byte*>(x.data) +
         static_cast<std::size_t>(rank * count) * size_of(x.dtype);
}

// Bounds the free memory that a communicator requires, which is measured while the first one is
// made: another process may fill the same GPU meanwhile. NCCL takes 0.4 GB with two ranks.
constexpr std::size_t most_room = 2'000'000'000;

// NCCL maps memory in pages of 2 MiB.
std::size_t window_bytes(const Tensor& x) {
  constexpr std::size_t page = std::size_t{2} << 20U;
  return std::max<std::size_t>(1, (x.bytes() + page - 1) / page) * page;
}

class NcclCommunicator final : public Communicator, private Abortable {
 public:
  // Owns `comm`. room: see require_free_memory().
  NcclCommunicator(ncclComm_t comm, std::size_t room, Watchdog& watchdog, GpuDevice& device,
                   Stream& stream);
  ~NcclCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] BackendKind backend() const override { return BackendKind::nccl; }
  [[nodiscard]] Stream& stream() override { return stream_; }
  void require_free_memory() override;
  [[nodiscard]] std::unique_ptr<Communicator> duplicate(Stream& stream) override;

  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override;
  [[nodiscard]] std::shared_ptr<void> register_memory(const Tensor& memory) override;

  void all_reduce(Tensor recv, Tensor send, ReduceOp op) override;
  void reduce_scatter(Tensor recv, Tensor send, ReduceOp op) override;
  void all_gather(Tensor recv, Tensor send) override;
  void broadcast(Tensor data, int root) override;
  void reduce(Tensor recv, Tensor send, ReduceOp op, int root) override;
  void all_to_all(Tensor recv, Tensor send) override;
  void send_recv(Tensor recv, int source, Tensor send, int destination) override;

 private:
  [[nodiscard]] CollectivePlan plan(const CollectiveForm& form, const Tensor& recv,
                                    const Tensor& send) const {
    wait_if_aborted();
    return plan_collective(form, rank_, size_, recv, send);
  }
  // After abort() the launch is ending, and no thread may use the communicator any more.
  void wait_if_aborted() const {
    while (aborted_) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  // A copy of x, enqueued on the stream.
  [[nodiscard]] Tensor staged(const Tensor& x);

  // Called by the watchdog's thread.
  [[nodiscard]] std::string async_error() override;
  void abort() override {
    aborted_ = true;
    ncclCommAbort(comm_);
  }

  ncclComm_t comm_;
  std::size_t room_;
  std::atomic<bool> aborted_ = false;
  Watchdog& watchdog_;
  GpuDevice& device_;
  Stream& stream_;
  cudaStream_t handle_;  // of stream_
  Array staging_;
  int rank_ = 0;
  int size_ = 1;
};

NcclCommunicator::NcclCommunicator(ncclComm_t comm, std::size_t room, Watchdog& watchdog,
                                   GpuDevice& device, Stream& stream)
    : comm_(comm),
      room_(room),
      watchdog_(watchdog),
      device_(device),
      stream_(stream),
      handle_(device.handle_of(stream)) {
  NCCL_CHECK(device_, ncclCommUserRank(comm_, &rank_));
  NCCL_CHECK(device_, ncclCommCount(comm_, &size_));
  watchdog_.monitor(*this);
}

NcclCommunicator::~NcclCommunicator() {
  cudaStreamSynchronize(handle_);
  watchdog_.stop_monitoring(*this);
  wait_if_aborted();
  ncclCommDestroy(comm_);
}

void NcclCommunicator::require_free_memory() {
  if (free_memory() >= room_) return;
  throw OutOfMemory(room_, device_.ledger(), available_memory(device_), "NCCL");
}

std::unique_ptr<Communicator> NcclCommunicator::duplicate(Stream& stream) {
  const WatchdogScope watchdog_scope(watchdog_, "making another NCCL communicator", WaitFor::ranks);
  ncclComm_t comm = nullptr;
  NCCL_CHECK(device_, ncclCommSplit(comm_, 0, rank_, &comm, nullptr));
  return std::make_unique<NcclCommunicator>(comm, room_, watchdog_, device_, stream);
}

Array NcclCommunicator::allocate(const Shape& shape, Dtype dtype, MemoryKind kind) {
  const MemoryLedger& ledger = device_.ledger();
  Tensor x{.data = nullptr, .shape = shape, .dtype = dtype};
  const std::size_t bytes = window_bytes(x);
  const std::size_t most = device_.info().memory_bytes;
  if (ledger.bytes() + bytes > most || ncclMemAlloc(&x.data, bytes) != ncclSuccess) {
    cudaGetLastError();  // clear NCCL's error
    throw OutOfMemory(bytes, ledger, available_memory(device_), device_.scopes().path());
  }
  return device_.adopt(x, bytes, kind, [](void* memory) { ncclMemFree(memory); });
}

std::shared_ptr<void> NcclCommunicator::register_memory(const Tensor& memory) {
  const WatchdogScope watchdog_scope(watchdog_, "registering memory with NCCL", WaitFor::ranks);
  ncclWindow_t window = nullptr;
  NCCL_CHECK(device_, ncclCommWindowRegister(comm_, memory.data, window_bytes(memory), &window,
                                             NCCL_WIN_COLL_SYMMETRIC));
  if (window == nullptr) {
    throw EnvironmentError("--registration: NCCL cannot create symmetric windows here; use none");
  }
  return {window, [comm = comm_](ncclWindow_t w) { ncclCommWindowDeregister(comm, w); }};
}

void NcclCommunicator::all_reduce(Tensor recv, Tensor send, ReduceOp op) {
  const std::int64_t count = plan(all_reduce_form, recv, send).count;
  NCCL_CHECK(device_, ncclAllReduce(send.data, recv.data, count, nccl_type(recv.dtype), nccl_op(op),
                                    comm_, handle_));
}

void NcclCommunicator::reduce_scatter(Tensor recv, Tensor send, ReduceOp op) {
  const std::int64_t count = plan(reduce_scatter_form, recv, send).count;
  NCCL_CHECK(device_, ncclReduceScatter(send.data, recv.data, count, nccl_type(recv.dtype),
                                        nccl_op(op), comm_, handle_));
}

void NcclCommunicator::all_gather(Tensor recv, Tensor send) {
  const std::int64_t count = plan(all_gather_form, recv, send).count;
  NCCL_CHECK(device_,
             ncclAllGather(send.data, recv.data, count, nccl_type(recv.dtype), comm_, handle_));
}

void NcclCommunicator::broadcast(Tensor data, int root) {
  check_rank(broadcast_form, root, size_);
  const std::int64_t count = plan(broadcast_form, data, data).count;
  NCCL_CHECK(device_, ncclBroadcast(data.data, data.data, count, nccl_type(data.dtype), root, comm_,
                                    handle_));
}

void NcclCommunicator::reduce(Tensor recv, Tensor send, ReduceOp op, int root) {
  check_rank(reduce_form, root, size_);
  const bool has_result = rank_ == root;
  const Tensor& to = !has_result && recv.empty() ? send : recv;
  const std::int64_t count = plan(reduce_form, to, send).count;
  NCCL_CHECK(device_, ncclReduce(send.data, has_result ? recv.data : nullptr, count,
                                 nccl_type(send.dtype), nccl_op(op), root, comm_, handle_));
}

void NcclCommunicator::all_to_all(Tensor recv, Tensor send) {
  const CollectivePlan p = plan(all_to_all_form, recv, send);
  if (p.in_place) send = staged(send);
  const ncclDataType_t type = nccl_type(recv.dtype);
  Group group(device_);
  for (int other = 0; other < size_; ++other) {
    NCCL_CHECK(device_, ncclSend(part(send, other, p.count), p.count, type, other, comm_, handle_));
    NCCL_CHECK(device_, ncclRecv(part(recv, other, p.count), p.count, type, other, comm_, handle_));
  }
  group.end();
}

void NcclCommunicator::send_recv(Tensor recv, int source, Tensor send, int destination) {
  check_rank(send_recv_form, source, size_);
  check_rank(send_recv_form, destination, size_);
  const CollectivePlan p = plan(send_recv_form, recv, send);
  if (p.in_place) send = staged(send);
  const ncclDataType_t type = nccl_type(recv.dtype);
  Group group(device_);
  NCCL_CHECK(device_, ncclSend(send.data, p.count, type, destination, comm_, handle_));
  NCCL_CHECK(device_, ncclRecv(recv.data, p.count, type, source, comm_, handle_));
  group.end();
}

Tensor NcclCommunicator::staged(const Tensor& x) {
  const Tensor whole = staging_;
  if (whole.bytes() < x.bytes() || whole.data == nullptr) {
    stream_.synchronize();  // the old buffer may be in use
    staging_ = device_.allocate(x.shape, x.dtype, MemoryKind::communication);
  }
  const Tensor copy{.data = staging_.tensor().data, .shape = x.shape, .dtype = x.dtype};
  CUDA_CHECK(cudaMemcpyAsync(copy.data, x.data, x.bytes(), cudaMemcpyDeviceToDevice, handle_));
  return copy;
}

std::string NcclCommunicator::async_error() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) state = asked;
  if (state == ncclSuccess || state == ncclInProgress) return "";
  return fmt::format("NCCL reports: {} ({}); NCCL_DEBUG=WARN says more", ncclGetErrorString(state),
                     ncclGetLastError(comm_));
}

}  // namespace

std::string nccl_version() {
  int code = 0;
  if (ncclGetVersion(&code) != ncclSuccess) return "";
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

void limit_window_blocks() { setenv("NCCL_SYM_CTAS", "8", 0); }

std::unique_ptr<Communicator> make_nccl_communicator(World& world, GpuDevice& device) {
  // NCCL then does not order graphs with calls outside them, which would cost an event per captured
  // call. The caller waits for a graph before the next call outside it.
  setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0);
  ncclUniqueId id{};
  std::string bytes;
  if (world.rank() == 0) {
    NCCL_CHECK(device, ncclGetUniqueId(&id));
    bytes.assign(id.internal, sizeof id.internal);
  }
  bytes = world.broadcast(bytes, 0);
  bytes.copy(id.internal, sizeof id.internal);
  const WatchdogScope watchdog_scope(world.watchdog(), "making the NCCL communicator",
                                     WaitFor::ranks);
  const std::size_t free = free_memory();
  ncclComm_t comm = nullptr;
  NCCL_CHECK(device, ncclCommInitRank(&comm, world.size(), id, world.rank()));
  const std::size_t taken = free - std::min(free, free_memory());
  const std::size_t room = std::min(taken, most_room);
  return std::make_unique<NcclCommunicator>(comm, room, world.watchdog(), device,
                                            device.communication_stream());
}

}  // namespace paceline
