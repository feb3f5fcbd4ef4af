#include "cuda/gemm/tuned_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/scope.h"
#include "cuda/gemm/cublaslt.h"
#include "cuda/gemm/round_robin.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/cuda_stream.h"

namespace paceline {

namespace {

// The GPU and versions for which a choice holds.
std::string identity(const CudaDevice& device) {
  const DeviceInfo info = device.info();
  std::string driver = "unknown";
  for (const auto& [name, version] : info.versions) {
    if (name == "driver") driver = version;
  }
  return fmt::format("{} driver {} cublasLt {}", info.name, driver, cublaslt().get_version());
}

// Elements from the first to the last of a matrix, gaps included.
std::int64_t extent(const Matrix& m) {
  std::int64_t last = (m.rows - 1) * m.row_stride + m.cols;
  for (std::size_t i = 0; i < m.batch.size(); ++i) {
    last += (m.batch.at(i) - 1) * m.batch_stride.at(i);
  }
  return last;
}

// Memory that timed products can accumulate into instead of c; empty if there is none.
Array in_place_of(CudaDevice& device, const Matrix& c) {
  try {
    Array memory = device.allocate({extent(c)}, c.tensor.dtype, MemoryKind::workspace);
    device.zero(memory);
    return memory;
  } catch (const OutOfMemory&) {
    return {};
  }
}

void refuse_capture(cudaStream_t stream, const std::string& product) {
  if (!is_capturing(stream)) return;
  throw InternalError("the rehearsal did not compute the product " + product);
}

// Every graph node of a call beyond the first, such as a memset before the kernel, costs a captured
// step about 1.7 us (H200), which events around the call on a stream do not show.
double seconds_in_a_step(cudaStream_t stream, const Alternative& run, double seconds) {
  constexpr double seconds_per_node = 1.7e-6;
  if (!std::isfinite(seconds)) return seconds;
  const CudaGraph graph(stream, [&] { (void)run(); });
  return seconds + seconds_per_node * static_cast<double>(graph.nodes().all - 1);
}

std::string transposed_text(const Product& p) {
  if (p.a.transposed && p.b.transposed) return "both";
  if (p.a.transposed) return "a";
  return p.b.transposed ? "b" : "no";
}

}  // namespace

CudaTunedMatmul::CudaTunedMatmul(CudaDevice& device, GemmMath math, Tensor workspace)
    : device_(device),
      library_(device.compute_stream().get(), math, workspace),
      cache_(cache_folder(), identity(device)),
      choices_(cache_.read()) {}

void CudaTunedMatmul::run(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                          double beta, int multiprocessors) {
  const Operands operands{c, a, b, alpha, beta};
  const Planned& p = planned(Product(c, a, b, beta != 0, multiprocessors), operands);
  CUDA_CHECK(enqueue(p, {p.algorithm, p.choice.batching}, operands));
}

const CudaTunedMatmul::Planned& CudaTunedMatmul::planned(const Product& product,
                                                         const Operands& operands) {
  const auto known = plans_.find(product);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(product, make_plan(product, operands)).first->second;
}

CudaTunedMatmul::Planned CudaTunedMatmul::make_plan(const Product& product,
                                                    const Operands& operands) {
  Planned p{.text = fmt::format("{} float32 {} workspace {}", product.text(),
                                name_of(library_.math), library_.workspace.bytes())};
  refuse_capture(library_.stream, p.text);
  const Matrix& c = operands.c;
  const auto plan = [&](Batching batching) {
    return std::make_unique<MatmulPlan>(library_, c, operands.a, operands.b,
                                        product.multiprocessors, batching);
  };
  p.strided = plan(Batching::strided);
  if (std::min(c.batch[0], c.batch[1]) > 1) {
    p.pointers = plan(Batching::pointers);
    // Allocated even if the choice is strided: that of another rank may not be.
    p.addresses = std::make_unique<BatchPointerArrays>(device_, c);
  }
  const auto known = choices_.find(p.text);
  if (known != choices_.end() && adopt(p, known->second, Source::file)) return p;
  const double began = host_seconds();
  p.choice = timed(p, operands);
  p.algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(p.choice.algorithm);
  choices_.insert_or_assign(p.text, p.choice);
  if (p.choice.candidates > 0) cache_.add({{p.text, p.choice}});
  seconds_ += host_seconds() - began;
  return p;
}

bool CudaTunedMatmul::adopt(Planned& planned, const ProductChoice& choice, Source source) const {
  const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(choice.algorithm);
  const MatmulPlan* plan = nullptr;
  switch (choice.batching) {
    case Batching::strided: plan = planned.strided.get(); break;
    case Batching::pointers: plan = planned.pointers.get(); break;
  }
  if (plan == nullptr || !plan->accepts(library_, algorithm)) return false;
  planned.choice = choice;
  planned.algorithm = algorithm;
  planned.source = source;
  return true;
}

// cuBLASLt proposes about eight algorithms for each set of limits. Its first proposal comes first.
std::vector<CudaTunedMatmul::Candidate> CudaTunedMatmul::candidates(const Planned& planned) const {
  constexpr int most = 64;
  const std::size_t workspace = library_.workspace.bytes();
  const std::array<ProposalLimits, 3> all_limits = {
      {{.workspace_bytes = workspace}, {}, {.workspace_bytes = workspace, .waves = 1}}};
  std::vector<Candidate> all;
  for (const Batching batching : {Batching::strided, Batching::pointers}) {
    const auto& plan = batching == Batching::strided ? planned.strided : planned.pointers;
    if (plan == nullptr) continue;
    std::vector<AlgorithmConfig> seen;
    for (const ProposalLimits& limits : all_limits) {
      for (const cublasLtMatmulAlgo_t& algorithm : plan->proposals(library_, limits, most)) {
        const AlgorithmConfig config = config_of(algorithm);
        if (std::find(seen.begin(), seen.end(), config) != seen.end()) continue;
        seen.push_back(config);
        all.push_back({algorithm, batching});
      }
    }
  }
  return all;
}

// With beta = 0 the timed products may write c: the requested product overwrites it.
ProductChoice CudaTunedMatmul::timed(const Planned& planned, const Operands& operands) const {
  const Scope scope(device_.scopes(), "tuning");
  const std::vector<Candidate> all = candidates(planned);
  if (all.empty()) throw_no_product(operands.c, operands.a);
  const auto choice = [&](const Candidate& chosen, int count, double first, double seconds) {
    return ProductChoice{
        .algorithm = std::bit_cast<decltype(ProductChoice::algorithm)>(chosen.algorithm),
        .batching = chosen.batching,
        .candidates = count,
        .first_seconds = first,
        .seconds = seconds};
  };
  Matrix c = operands.c;
  Array added_to;
  if (operands.beta != 0) {
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    added_to = in_place_of(device_, c);
    if (added_to.empty()) return choice(all.front(), 0, unknown, unknown);
    c.tensor = added_to;
  }
  const Operands measured{c, operands.a, operands.b, operands.alpha, operands.beta};
  std::vector<Alternative> runs;
  for (const Candidate& candidate : all) {
    runs.emplace_back([this, &planned, &measured, candidate] {
      return enqueue(planned, candidate, measured) == CUBLAS_STATUS_SUCCESS;
    });
  }
  // a is the activation or gradient that the previous kernel of the step has just written.
  const Matrix& a = operands.a;
  const std::vector<double> medians =
      round_robin_medians(device_, runs, {a.tensor.data, {extent(a)}, a.tensor.dtype});
  std::vector<double> in_a_step;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    in_a_step.push_back(seconds_in_a_step(library_.stream, runs[i], medians[i]));
  }
  const auto best = static_cast<std::size_t>(std::min_element(in_a_step.begin(), in_a_step.end()) -
                                             in_a_step.begin());
  if (!std::isfinite(medians[best])) throw_no_product(operands.c, operands.a);
  const auto usable = std::count_if(medians.begin(), medians.end(),
                                    [](double seconds) { return std::isfinite(seconds); });
  return choice(all[best], static_cast<int>(usable), medians.front(), medians[best]);
}

cublasStatus_t CudaTunedMatmul::enqueue(const Planned& planned, const Candidate& candidate,
                                        const Operands& operands) const {
  const Matrix& c = operands.c;
  const Matrix& a = operands.a;
  const Matrix& b = operands.b;
  switch (candidate.batching) {
    case Batching::strided:
      return planned.strided->run(library_, candidate.algorithm, c, a, b, operands.alpha,
                                  operands.beta);
    case Batching::pointers: {
      const BatchPointers to = planned.addresses->of(c, a, b, library_.stream);
      return planned.pointers->call(library_, candidate.algorithm, to.c, to.a, to.b, operands.alpha,
                                    operands.beta);
    }
  }
  throw InternalError("a batching that no product has");
}

std::string CudaTunedMatmul::choices() const { return text_of(choices_, cache_.identity()); }

bool CudaTunedMatmul::take(const std::string& choices) {
  ProductChoices taken = choices_of(choices, cache_.identity());
  taken.merge(choices_);  // only products that are not in `taken`
  choices_ = std::move(taken);
  bool changed = false;
  for (auto& entry : plans_) {
    Planned& planned = entry.second;
    ProductChoice& choice = choices_.at(planned.text);
    if (choice.same_algorithm(planned.choice)) continue;
    if (adopt(planned, choice, Source::rank_0)) {
      changed = true;
    } else {
      choice = planned.choice;
    }
  }
  return changed;
}

std::vector<TunedProduct> CudaTunedMatmul::products() const {
  constexpr std::array<const char*, 3> sources = {"timed", "file", "rank 0"};
  std::vector<TunedProduct> all;
  for (const auto& [product, planned] : plans_) {
    const ProductChoice& choice = planned.choice;
    all.push_back(
        {.m = product.c.rows,
         .n = product.c.cols,
         .k = product.a.transposed ? product.a.rows : product.a.cols,
         .batch = product.batch[0] * product.batch[1],
         .dtypes = fmt::format("{} -> {}", name_of(product.a.dtype), name_of(product.c.dtype)),
         .transposed = transposed_text(product),
         .adds = product.adds,
         .multiprocessors = product.multiprocessors,
         .algorithm =
             fmt::format("{} {}", name_of(choice.batching), text_of(config_of(planned.algorithm))),
         .source = sources.at(static_cast<std::size_t>(planned.source)),
         .candidates = choice.candidates,
         .first_seconds = choice.first_seconds,
         .seconds = choice.seconds});
  }
  return all;
}

}  // namespace paceline
