#include "cuda/cuda_eager_ops.h"

#include <algorithm>
#include <utility>

#include "cuda/gemm/matmul.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/cuda_device.h"

namespace paceline {

namespace {

Array cublas_workspace(Device& device) {
  constexpr std::int64_t bytes = std::int64_t{32} << 20U;  // NVIDIA's recommendation for Hopper
  const Scope scope(device.scopes(), "cublas workspace");
  return device.allocate({bytes / 4}, Dtype::f32, MemoryKind::workspace);
}

// Multiprocessors assumed to be occupied by collectives; parallel/NOTES.md has step times for other
// numbers.
constexpr int multiprocessors_of_collectives = 24;

// Products on tensor cores have about one block per multiprocessor: if collectives occupy some, the
// last blocks wait for the first to end. True float32 products have many small blocks.
bool heeds_collectives(const Precision& precision) {
  switch (precision.compute) {
    case Dtype::bf16:
    case Dtype::f16: return true;
    case Dtype::f32: return precision.gemm != GemmMath::exact;
    case Dtype::f64:
    case Dtype::i32: break;
  }
  return false;
}

}  // namespace

CudaEagerOps::CudaEagerOps(CudaDevice& device, const OpsConfig& config)
    : Ops(device, config),
      stream_(device.compute_stream().get()),
      multiprocessors_(device.properties().multiProcessorCount),
      matmul_workspace_(cublas_workspace(device)),
      matmul_(std::make_unique<CudaMatmul>(stream_, config.precision.gemm, matmul_workspace_)),
      scratch_(device) {}

CudaEagerOps::~CudaEagerOps() = default;

void CudaEagerOps::on(Stream& stream, std::function<void()> work) {
  struct Restored {
    cudaStream_t& current;
    cudaStream_t before;
    ~Restored() { current = before; }
  };
  const Restored restored{stream_, std::exchange(stream_, dynamic_cast<CudaStream&>(stream).get())};
  work();
}

int CudaEagerOps::multiprocessors_of_products() const {
  const int free = std::max(1, multiprocessors_ - multiprocessors_of_collectives);
  return heeds_collectives(precision()) && beside_collectives_ ? free : 0;
}

void CudaEagerOps::multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                            double beta) {
  matmul_->run(c, a, b, alpha, beta, multiprocessors_of_products());
}

}  // namespace paceline
