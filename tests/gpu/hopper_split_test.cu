// bf16x3: loads of split tiles by TMA, and products.

#include <random>

#include "cuda/hopper/split.cuh"
#include "cuda/hopper/tensor_map.h"
#include "tests/gpu/hopper_mma_test.cuh"
#include "tests/oracle/closeness.h"

namespace paceline {
namespace {

using namespace hopper;
using HopperSplit = Hopper;

HostMatrix<float> normal(int rows, int cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  return filled<float>(rows, cols, [&](int, int) { return draw(random); });
}

// Rows of high parts followed by low parts.
HostMatrix<__nv_bfloat16> parts(const HostMatrix<float>& x) {
  return filled<__nv_bfloat16>(x.rows, 2 * x.cols, [&](int r, int c) {
    const float value = x(r, c % x.cols);
    const __nv_bfloat16 high = value;
    return c < x.cols ? high : static_cast<__nv_bfloat16>(value - static_cast<float>(high));
  });
}

CUtensorMap map_of(const DeviceArray<__nv_bfloat16>& x, int rows, int cols) {
  const std::int64_t row = 2 * std::int64_t{cols};
  return tensor_map(
      {.data = x.get(), .sizes = {row, rows, 1, 1}, .strides = {row, rows * row, rows * row}}, rows,
      cols);
}

template <class A, class B>
struct Operands {
  A a;
  B b;
  Barrier full;
};

// One thread loads; all threads see the tiles afterwards.
template <class Shared, class... Load>
__device__ void wait_for_loads(Shared& shared, int bytes, Load&&... load) {
  if (threadIdx.x == 0) {
    shared.full.init(1);
    barriers_are_ready();
    shared.full.arrive_and_expect(bytes);
    (load(), ...);
  }
  __syncthreads();
  shared.full.wait(0);
}

constexpr int a_rows = 128;

template <int N, int K>
__global__ void abt(float* d, const __grid_constant__ CUtensorMap a,
                    const __grid_constant__ CUtensorMap b, int a_row) {
  using A = SplitTile<a_rows, K>;
  using B = SplitTile<N, K>;
  auto& shared = shared_as<Operands<A, B>>();
  wait_for_loads(
      shared, A::bytes + B::bytes, [&] { load(shared.a, a, shared.full, 0, 0, 0); },
      [&] { load(shared.b, b, shared.full, 0, 0, 0); });
  Accumulator<N> sums;
  begin(sums);
  mma_abt(sums, shared.a, a_row, shared.b);
  commit();
  wait<0>(sums);
  write(d, sums);
}

// 2 a b.
template <int N, int K>
__global__ void ab(float* d, const float* a, const __grid_constant__ CUtensorMap b) {
  using B = SplitTile<K, N>;
  auto& shared = shared_as<Operands<int, B>>();
  wait_for_loads(shared, B::bytes, [&] { load(shared.b, b, shared.full, 0, 0, 0); });
  Accumulator<K> left;
  read(left, a);
  SplitOperand<K> operand;
  round_to_operand<float>(operand, left);
  Accumulator<N> sums;
  begin(sums, operand);
  mma_ab(sums, operand, shared.b, false);
  mma_ab(sums, operand, shared.b, true);
  commit();
  wait<0>(sums, operand);
  write(d, sums);
}

// The tolerance for a product without low low. Without any other term the error would be above
// 1e-3.
void expect_close(const HostMatrix<float>& got, const HostMatrix<float>& want) {
  EXPECT_LT(distance({got.at.begin(), got.at.end()}, {want.at.begin(), want.at.end()}, 0), 1e-5);
}

template <int N, int K>
void expect_products() {
  const HostMatrix<float> a = normal(a_rows, K, 1);
  const HostMatrix<float> b = normal(N, K, 2);
  const DeviceArray<__nv_bfloat16> a_parts(parts(a).at);
  const DeviceArray<__nv_bfloat16> b_parts(parts(b).at);
  const DeviceArray<__nv_bfloat16> columns(parts(transposed(b)).at);
  for (const int a_row : {0, 64}) {
    const HostMatrix<float> rows =
        filled<float>(64, K, [&](int r, int c) { return a(a_row + r, c); });
    HostMatrix<float> want = product(HostMatrix<float>{64, N}, rows, b);
    HostMatrix<float> got{64, N};
    const DeviceArray<float> sums(got.at);
    run(abt<N, K>, 1, warpgroup_threads, sizeof(Operands<SplitTile<a_rows, K>, SplitTile<N, K>>),
        sums.get(), map_of(a_parts, a_rows, K), map_of(b_parts, N, K), a_row);
    got.at = sums.read();
    expect_close(got, want);
    const DeviceArray<float> left(rows.at);
    run(ab<N, K>, 1, warpgroup_threads, sizeof(Operands<int, SplitTile<K, N>>), sums.get(),
        left.get(), map_of(columns, K, N));
    got.at = sums.read();
    for (float& x : want.at) x *= 2;
    expect_close(got, want);
  }
}

TEST_F(HopperSplit, ProductsOfHighAndLowParts) {
  expect_products<128, 64>();
  expect_products<64, 128>();
  expect_products<80, 64>();
  expect_products<64, 80>();
  expect_products<16, 128>();
  expect_products<32, 128>();
}

}  // namespace
}  // namespace paceline
