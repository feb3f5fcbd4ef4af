#include "cuda/cuda_eager_ops.h"

#include <algorithm>

#include "cuda/check.h"
#include "cuda/matmul.h"

namespace paceline {

namespace {

constexpr std::int64_t matmul_workspace = std::int64_t{32}
                                          << 20U;  // what NVIDIA advises for Hopper

Array workspace(Device& device, std::int64_t floats, std::string_view name) {
  const Scope scope(device.scopes(), name);
  return device.allocate({floats}, Dtype::f32, MemoryKind::workspace);
}

// What collectives are taken to occupy: parallel/NOTES.md has the steps with other numbers.
constexpr int multiprocessors_of_collectives = 24;

// Products on tensor cores have about as many blocks as there are multiprocessors: with some taken,
// the last blocks wait for the first ones. True float32's have many small ones.
bool heeds_collectives(const Precision& precision) { return precision.name != "fp32"; }

}  // namespace

CudaEagerOps::CudaEagerOps(CudaDevice& device, const OpsConfig& config)
    : Ops(device, config),
      stream_(device.compute_stream().get()),
      multiprocessors_(device.properties().multiProcessorCount),
      matmul_workspace_(workspace(device, matmul_workspace / 4, "cublas workspace")),
      matmul_(std::make_unique<CudaMatmul>(stream_, config.precision, matmul_workspace_)) {}

CudaEagerOps::~CudaEagerOps() = default;

void CudaEagerOps::matmul(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                          double beta) {
  const int free = std::max(1, multiprocessors_ - multiprocessors_of_collectives);
  matmul_->run(c, a, b, alpha, beta,
               heeds_collectives(precision()) && beside_collectives_ ? free : 0);
}

float* CudaEagerOps::scratch(std::int64_t floats) {
  if (scratch_.empty() || scratch_.tensor().numel() < floats) {
    scratch_ = {};
    scratch_ = workspace(device(), floats, "scratch");
  }
  return scratch_.tensor().as<float>();
}

}  // namespace paceline
