// Every form of wgmma that the kernels use, element by element.

#include "tests/gpu/hopper_mma_test.cuh"

namespace paceline {
namespace {

using namespace hopper;

template <class A, class B>
struct Operands {
  A a;
  B b;
};

template <class T>
class HopperMma : public Hopper {};
using Types = ::testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(HopperMma, Types);

// a in rows a_row ... a_row + 63, NaN elsewhere.
constexpr int a_rows = 128;
template <class T>
HostMatrix<T> among_nan(const HostMatrix<T>& a, int a_row) {
  return filled<T>(a_rows, a.cols, [&](int r, int c) {
    return r >= a_row && r < a_row + 64 ? a(r - a_row, c) : static_cast<T>(NAN);
  });
}

// Runs the kernel on copies of d, a and b and returns d.
template <class T, class Kernel, class... Rest>
HostMatrix<float> multiplied(Kernel kernel, std::size_t shared_bytes, HostMatrix<float> d,
                             const HostMatrix<T>& a, const HostMatrix<T>& b, Rest... rest) {
  const DeviceArray<float> sums(d.at);
  const DeviceArray<T> left(a.at);
  const DeviceArray<T> right(b.at);
  run(kernel, 1, warpgroup_threads, shared_bytes, sums.get(), left.get(), right.get(), rest...);
  d.at = sums.read();
  return d;
}

// ---- a b^T -------------------------------------------------------------------------------------

template <class T, int N, int K>
__global__ void abt(float* d, const T* a, const T* b, int a_row, bool add) {
  auto& shared = shared_as<Operands<SharedTile<T, a_rows, K>, SharedTile<T, N, K>>>();
  fill<K>(shared.a, a);
  fill<K>(shared.b, b);
  publish_to_async_proxy();
  __syncthreads();
  Accumulator<N> sums;
  read(sums, d);
  begin(sums);
  mma_abt(sums, shared.a, a_row, shared.b, add);
  commit();
  wait<0>(sums);
  write(d, sums);
}

template <class T, int N, int K>
void expect_abt() {
  using Shared = Operands<SharedTile<T, a_rows, K>, SharedTile<T, N, K>>;
  for (const int a_row : {0, 64}) {
    for (const Before before : {Before::ignored, Before::added}) {
      const auto multiply = [&](const HostMatrix<float>& d, const HostMatrix<T>& a,
                                const HostMatrix<T>& b) {
        return multiplied(abt<T, N, K>, sizeof(Shared), d, among_nan(a, a_row), b, a_row,
                          before == Before::added);
      };
      expect_products<T>("a b^T, N " + std::to_string(N) + ", K " + std::to_string(K) + ", rows " +
                             std::to_string(a_row),
                         N, K, before, multiply);
    }
  }
}

template <class T, int N, int... K>
void expect_abt_of() {
  (expect_abt<T, N, K>(), ...);
}

TYPED_TEST(HopperMma, RowsTimesRowsInSharedMemory) {
  expect_abt_of<TypeParam, 64, 16, 32, 64, 80, 128>();
  expect_abt_of<TypeParam, 80, 16, 32, 64, 80, 128>();
  expect_abt_of<TypeParam, 96, 16, 32, 64, 80, 128>();
  expect_abt_of<TypeParam, 128, 16, 32, 64, 80, 128>();
}

// The widest instruction, as hopper_gemm uses it.
TYPED_TEST(HopperMma, RowsTimesTheWidestRows) { expect_abt<TypeParam, 256, 64>(); }

// ---- a b, a in registers -----------------------------------------------------------------------

template <class T, int N, int K>
__global__ void ab_registers(float* d, const T* a, const T* b, bool add) {
  auto& shared = shared_as<SharedTile<T, K, N>>();
  fill<N>(shared, b);
  publish_to_async_proxy();
  __syncthreads();
  Operand<K> left;
  Accumulator<N> sums;
  read(left, a);
  read(sums, d);
  begin(sums, left);
  mma_ab(sums, left, shared, add);
  commit();
  wait<0>(sums, left);
  write(d, sums);
}

template <class T, int N, int K>
void expect_ab_registers() {
  for (const Before before : {Before::ignored, Before::added}) {
    const auto multiply = [&](const HostMatrix<float>& d, const HostMatrix<T>& a,
                              const HostMatrix<T>& b) {
      return multiplied(ab_registers<T, N, K>, sizeof(SharedTile<T, K, N>), d, a, transposed(b),
                        before == Before::added);
    };
    expect_products<T>("a b, a in registers, N " + std::to_string(N) + ", K " + std::to_string(K),
                       N, K, before, multiply);
  }
}

template <class T, int K, int... N>
void expect_ab_registers_of() {
  (expect_ab_registers<T, N, K>(), ...);
}

TYPED_TEST(HopperMma, RegistersTimesColumns) {
  expect_ab_registers_of<TypeParam, 64, 16, 32, 64, 80, 128>();
  expect_ab_registers_of<TypeParam, 128, 16, 32, 64, 80, 128>();
  expect_ab_registers_of<TypeParam, 96, 16, 32, 64, 80, 128>();
}

// ---- a b, both in shared memory ----------------------------------------------------------------

// Columns of all panels of a tile of `Cols` columns.
template <int Cols>
constexpr int panels_width = Cols < 64 ? Cols : (Cols + 63) / 64 * 64;

template <class T, int N, int K, int BCols>
__global__ void ab_shared(float* d, const T* a, const T* b, int a_row, int b_panel) {
  auto& shared = shared_as<Operands<SharedTile<T, a_rows, K>, SharedTile<T, K, BCols>>>();
  fill<K>(shared.a, a);
  fill<panels_width<BCols>>(shared.b, b);
  publish_to_async_proxy();
  __syncthreads();
  Accumulator<N> sums;
  read(sums, d);
  begin(sums);
  mma_ab(sums, shared.a, a_row, shared.b, b_panel);
  commit();
  wait<0>(sums);
  write(d, sums);
}

// b is at column 64 Panel of a tile of BCols columns and may extend into the spare columns of the
// last panel. Other columns are NaN.
template <class T, int N, int K, int BCols = N, int Panel = 0>
void expect_ab_shared() {
  using Shared = Operands<SharedTile<T, a_rows, K>, SharedTile<T, K, BCols>>;
  constexpr int first = 64 * Panel;
  for (const int a_row : {0, 64}) {
    const auto multiply = [&](const HostMatrix<float>& d, const HostMatrix<T>& a,
                              const HostMatrix<T>& b) {
      const HostMatrix<T> wide = filled<T>(K, panels_width<BCols>, [&](int r, int c) {
        return c >= first && c < first + N ? b(c - first, r) : static_cast<T>(NAN);
      });
      return multiplied(ab_shared<T, N, K, BCols>, sizeof(Shared), d, among_nan(a, a_row), wide,
                        a_row, Panel);
    };
    expect_products<T>("a b in shared memory, N " + std::to_string(N) + " of " +
                           std::to_string(BCols) + ", K " + std::to_string(K) + ", rows " +
                           std::to_string(a_row),
                       N, K, Before::ignored, multiply);
  }
}

template <class T, int K, int... N>
void expect_ab_shared_of() {
  (expect_ab_shared<T, N, K>(), ...);
  expect_ab_shared<T, 64, K, 128, 0>();
  expect_ab_shared<T, 64, K, 128, 1>();
  expect_ab_shared<T, 64, K, 80, 0>();
  expect_ab_shared<T, 16, K, 80, 1>();
  expect_ab_shared<T, 64, K, 80, 1>();
}

TYPED_TEST(HopperMma, SharedMemoryTimesColumns) {
  expect_ab_shared_of<TypeParam, 64, 16, 32, 64, 80, 128>();
  expect_ab_shared_of<TypeParam, 128, 16, 32, 64, 80, 128>();
}

// ---- a^T b, both in shared memory --------------------------------------------------------------

template <class T, int N, int K>
__global__ void atb(float* d, const T* a, const T* b, int a_panel, bool add) {
  auto& shared = shared_as<Operands<SharedTile<T, K, 2 * 64>, SharedTile<T, K, N>>>();
  fill<2 * 64>(shared.a, a);
  fill<N>(shared.b, b);
  publish_to_async_proxy();
  __syncthreads();
  Accumulator<N> sums;
  read(sums, d);
  begin(sums);
  mma_atb(sums, shared.a, a_panel, shared.b, add);
  commit();
  wait<0>(sums);
  write(d, sums);
}

// a^T is one panel of a tile with two; the other panel is NaN.
template <class T, int N, int K>
void expect_atb() {
  using Shared = Operands<SharedTile<T, K, 2 * 64>, SharedTile<T, K, N>>;
  for (const int panel : {0, 1}) {
    for (const Before before : {Before::ignored, Before::added}) {
      const auto multiply = [&](const HostMatrix<float>& d, const HostMatrix<T>& a,
                                const HostMatrix<T>& b) {
        const HostMatrix<T> wide = filled<T>(K, 2 * 64, [&](int r, int c) {
          return c / 64 == panel ? a(c % 64, r) : static_cast<T>(NAN);
        });
        return multiplied(atb<T, N, K>, sizeof(Shared), d, wide, transposed(b), panel,
                          before == Before::added);
      };
      expect_products<T>("a^T b, N " + std::to_string(N) + ", K " + std::to_string(K) + ", panel " +
                             std::to_string(panel),
                         N, K, before, multiply);
    }
  }
}

template <class T, int K, int... N>
void expect_atb_of() {
  (expect_atb<T, N, K>(), ...);
}

TYPED_TEST(HopperMma, ColumnsTimesColumns) {
  expect_atb_of<TypeParam, 64, 16, 32, 64, 80, 128>();
  expect_atb_of<TypeParam, 128, 16, 32, 64, 80, 128>();
}

// ---- from a result to an operand ---------------------------------------------------------------

// became: words [K / 4, threads] of the operand made by rounding `rounded` [64, K]; is: those of
// `operand` as read.
template <class T, int K>
__global__ void to_operands(const float* rounded, const T* operand, std::uint32_t* became,
                            std::uint32_t* is) {
  Accumulator<K> x;
  Operand<K> made;
  Operand<K> loaded;
  read(x, rounded);
  round_to_operand<T>(made, x);
  read(loaded, operand);
#pragma unroll
  for (int i = 0; i < K / 4; ++i) {
    became[i * warpgroup_threads + threadIdx.x] = made.at[i / 4][i % 4];
    is[i * warpgroup_threads + threadIdx.x] = loaded.at[i / 4][i % 4];
  }
}

// The values are not representable in 16 bits.
template <class T, int K>
void expect_operand() {
  const HostMatrix<float> x = filled<float>(64, K, [](int r, int c) {
    return (r % 2 == 0 ? 1.0F : -1.0F) * static_cast<float>(1 + r * K + c) * 1.00123F;
  });
  const HostMatrix<T> rounded =
      filled<T>(64, K, [&](int r, int c) { return static_cast<T>(x(r, c)); });
  const DeviceArray<float> from(x.at);
  const DeviceArray<T> operand(rounded.at);
  const std::vector<std::uint32_t> none(static_cast<std::size_t>(K / 4 * warpgroup_threads));
  const DeviceArray<std::uint32_t> became(none);
  const DeviceArray<std::uint32_t> is(none);
  run(to_operands<T, K>, 1, warpgroup_threads, 0, from.get(), operand.get(), became.get(),
      is.get());
  expect_same(became.read(), is.read(), warpgroup_threads, "K " + std::to_string(K));
}

TYPED_TEST(HopperMma, AResultBecomesTheOperandThatItsRoundedNumbersAre) {
  expect_operand<TypeParam, 16>();
  expect_operand<TypeParam, 64>();
  expect_operand<TypeParam, 80>();
  expect_operand<TypeParam, 128>();
  expect_operand<TypeParam, 96>();
}

// Overwrites columns first_col ... first_col + 63 of a [K, Cols] tile.
template <class T, int K, int Cols>
__global__ void stores_transposed(const T* x, int first_col, T* tile) {
  auto& shared = shared_as<SharedTile<T, K, Cols>>();
  fill<Cols>(shared, tile);
  __syncthreads();
  Operand<K> operand;
  read(operand, x);
  store_transposed(shared, first_col, operand);
  __syncthreads();
  for (int i = threadIdx.x; i < K * Cols; i += blockDim.x) tile[i] = shared.at(i / Cols, i % Cols);
}

template <class T, int K, int Cols>
void expect_transposed() {
  const HostMatrix<T> x = all_different<T>(64, K);
  for (int first = 0; first < Cols; first += 64) {
    HostMatrix<T> tile = filled<T>(K, Cols, [](int, int) { return static_cast<T>(NAN); });
    const DeviceArray<T> on_gpu(tile.at);
    const DeviceArray<T> operand(x.at);
    run(stores_transposed<T, K, Cols>, 1, warpgroup_threads, sizeof(SharedTile<T, K, Cols>),
        operand.get(), first, on_gpu.get());
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < K; ++j) tile(j, first + i) = x(i, j);
    }
    expect_same(on_gpu.read(), tile.at, Cols, "K " + std::to_string(K));
  }
}

TYPED_TEST(HopperMma, AnOperandIsStoredTransposed) {
  expect_transposed<TypeParam, 64, 64>();
  expect_transposed<TypeParam, 64, 128>();
  expect_transposed<TypeParam, 128, 128>();
}

}  // namespace
}  // namespace paceline
