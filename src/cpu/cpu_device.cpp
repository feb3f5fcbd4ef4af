#include "cpu/cpu_device.h"

#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/host.h"
#include "core/ops.h"
#include "cpu/cpu_ops.h"
#include "cpu/threads.h"

namespace paceline {

namespace {

constexpr std::size_t alignment = 256;  // bytes

class FunctionGraph final : public Graph {
 public:
  explicit FunctionGraph(std::function<void()> work) : work_(std::move(work)) {}
  void launch() override { work_(); }

 private:
  std::function<void()> work_;
};

// `work` divided by the seconds of each call of f, after one warm-up call: at least eight calls,
// then as many as fit into `budget` seconds.
template <class F>
std::vector<double> rates_of(double work, double budget, F&& f) {
  constexpr std::size_t fewest = 8;
  f();
  std::vector<double> rates;
  const double began = host_seconds();
  double seconds = 0;
  while (rates.size() < fewest || host_seconds() - began + seconds < budget) {
    const double start = host_seconds();
    f();
    seconds = host_seconds() - start;
    rates.push_back(work / seconds);
  }
  return rates;
}

}  // namespace

CpuAllocator::~CpuAllocator() { empty_cache(); }

std::shared_ptr<void> CpuAllocator::allocate(Allocation asked) {
  const std::size_t size =
      std::max(alignment, (asked.bytes + alignment - 1) / alignment * alignment);
  asked.bytes = size;
  void* address = nullptr;
  {
    const std::lock_guard lock(mutex_);
    // take_new() may call empty_cache(), which does not invalidate this reference.
    std::vector<void*>& blocks = free_blocks_[size];
    if (blocks.empty()) {
      address = take_new(size, asked.scope);
    } else {
      address = blocks.back();
      blocks.pop_back();
    }
    ledger_.allocated(address, std::move(asked));
  }
  return {address, [this, size](void* p) { release(p, size); }};
}

void* CpuAllocator::take_new(std::size_t bytes, const std::string& scope) {
  if (frozen_) {
    throw InternalError(fmt::format(
        "an allocation of {} bytes in '{}' was not reserved by the rehearsal", bytes, scope));
  }
  const auto fits = [&] { return bytes <= limit_ && reserved_ <= limit_ - bytes; };
  reserved_unchanged_ = false;
  if (!fits()) empty_cache();
  void* block = fits() ? std::aligned_alloc(alignment, bytes) : nullptr;
  if (block == nullptr) throw OutOfMemory(bytes, ledger_, limit_, scope);
  reserved_ += bytes;
  return block;
}

void CpuAllocator::release(void* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ledger_.released(block);
  free_blocks_[bytes].push_back(block);
}

void CpuAllocator::empty_cache() {
  for (auto& [bytes, blocks] : free_blocks_) {
    for (void* block : blocks) std::free(block);
    reserved_ -= bytes * blocks.size();
    blocks.clear();
  }
}

bool CpuAllocator::reserved_unchanged() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reserved_unchanged_, true);
}

void CpuAllocator::freeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = true;
}

void CpuAllocator::trim() {
  const std::lock_guard lock(mutex_);
  empty_cache();
  frozen_ = false;
}

std::size_t CpuAllocator::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

CpuDevice::CpuDevice(std::size_t memory_limit, int threads)
    : threads_(std::max(1, threads)),
      info_{.kind = DeviceKind::cpu,
            .name = cpu_model(),
            .uuid = "",
            .pci_bus_id = "",
            .memory_bytes = memory_limit,
            .cache_bytes = last_level_cache(),
            .threads = threads_},
      allocator_(memory_limit, ledger()) {
  omp_set_num_threads(threads_);
  set_blas_threads(threads_);
}

Array CpuDevice::allocate(const Shape& shape, Dtype dtype, MemoryKind kind) {
  Tensor tensor{.data = nullptr, .shape = shape, .dtype = dtype};
  std::shared_ptr<void> block = allocator_.allocate({.bytes = tensor.bytes(),
                                                     .kind = kind,
                                                     .scope = scopes().path(),
                                                     .shape = shape,
                                                     .dtype = dtype});
  tensor.data = block.get();
  return {tensor, std::move(block)};
}

std::size_t CpuDevice::driver_bytes() const {
  std::size_t total = 0;     // pages
  std::size_t resident = 0;  // pages
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::unique_ptr<Graph> CpuDevice::capture(Stream& /*stream*/, std::function<void()> work) {
  return std::make_unique<FunctionGraph>(std::move(work));
}

std::unique_ptr<Ops> CpuDevice::make_ops(const OpsConfig& config) {
  return std::make_unique<CpuOps>(*this, config);
}

std::vector<double> CpuDevice::gemm_rates(const Precision& precision) {
  // A separate device, so that the matrices are not in this device's ledger and freeze() does not
  // forbid them.
  CpuDevice device(std::numeric_limits<std::size_t>::max(), threads_);
  const std::unique_ptr<Ops> ops = device.make_ops({.precision = precision});
  const auto rates = [&](std::int64_t n, double budget) {
    const auto matrix = [&] {
      Array x = device.allocate({n, n}, precision.compute, MemoryKind::workspace);
      ops->fill(x, 0.5);
      return x;
    };
    const Array a = matrix();
    const Array b = matrix();
    const Array c = matrix();
    const auto size = static_cast<double>(n);
    return rates_of(2 * size * size * size, budget,
                    [&] { ops->matmul(Matrix(c), Matrix(a), Matrix(b)); });
  };
  const auto most = [](const std::vector<double>& x) {
    return *std::max_element(x.begin(), x.end());
  };
  // The best of several sizes: larger products use many cores better but take long on few cores, so
  // they are tried only above a rate.
  constexpr double fast = 200e9;  // FLOP/s
  constexpr double faster = 500e9;
  std::vector<double> best = rates(512, 0.05);
  const auto try_size = [&](std::int64_t n, double budget) {
    std::vector<double> other = rates(n, budget);
    if (most(other) > most(best)) best = std::move(other);
  };
  if (most(best) > fast) try_size(1024, 0.1);
  if (most(best) > faster) try_size(2048, 0.2);
  return best;
}

std::vector<double> CpuDevice::copy_rates() {
  constexpr std::int64_t bytes = 128 << 20;  // beyond most caches
  constexpr std::int64_t piece = 1 << 20;
  CpuDevice device(std::numeric_limits<std::size_t>::max(), threads_);
  const auto buffer = [&] {
    return device.allocate({bytes / 4}, Dtype::f32, MemoryKind::workspace);
  };
  const Array from = buffer();
  const Array to = buffer();
  const auto at = [](const Array& x, std::int64_t i) {
    return static_cast<std::byte*>(x.tensor().data) + i;
  };
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < bytes; i += piece) std::memset(at(from, i), 1, piece);
  return rates_of(2 * static_cast<double>(bytes), 0.2, [&] {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < bytes; i += piece) std::memcpy(at(to, i), at(from, i), piece);
  });
}

std::unique_ptr<Sensors> CpuDevice::sensors() const {
  return std::make_unique<CpuSensors>(allowed_cores());
}

}  // namespace paceline
