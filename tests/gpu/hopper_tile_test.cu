// The layout of a tile in shared memory, and loads by TMA into it.

#include <array>

#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/tma.cuh"
#include "cuda/runtime/launch.cuh"
#include "tests/gpu/hopper_test.cuh"

namespace paceline {
namespace {

using namespace hopper;

// PTX ISA, "Swizzling modes": the bits of an address from bit 4 up are XORed with those from bit 7
// up, as many bits as number the 16-byte chunks of the span.
template <int Rows, int Cols>
int swizzled(int row, int col) {
  using Tile = SharedTile<__half, Rows, Cols>;
  const int panel = std::min(Cols, 64);
  const int at = col / panel * Rows * panel * 2 + row * panel * 2 + col % panel * 2;
  const int chunks = panel * 2 / 16;
  static_assert(Tile::panel_cols == std::min(Cols, 64));
  return at ^ (at >> 7 & chunks - 1) << 4;
}

template <int Rows, int Cols>
void expect_bijection() {
  using Tile = SharedTile<__half, Rows, Cols>;
  std::vector<int> offsets;
  for (int row = 0; row < Rows; ++row) {
    for (int col = 0; col < Tile::panels * Tile::panel_cols; ++col) {
      const int at = Tile::offset(row, col);
      ASSERT_EQ(at, (swizzled<Rows, Cols>(row, col))) << Cols << ": " << row << ", " << col;
      offsets.push_back(at);
    }
  }
  std::sort(offsets.begin(), offsets.end());
  ASSERT_EQ(offsets.size(), static_cast<std::size_t>(Tile::bytes / 2));
  for (std::size_t i = 0; i < offsets.size(); ++i) ASSERT_EQ(offsets[i], static_cast<int>(2 * i));
}

template <int... Cols>
void expect_bijections(std::integer_sequence<int, Cols...>) {
  (expect_bijection<8, Cols>(), ...);
  (expect_bijection<64, Cols>(), ...);
  (expect_bijection<96, Cols>(), ...);
}

TEST(HopperTile, OffsetsAreTheSwizzlesAndEachIsUsedOnce) {
  expect_bijections(std::integer_sequence<int, 16, 32, 64, 80, 128>{});
}

// ---- TMA ---------------------------------------------------------------------------------------

template <class Tile>
struct Loaded {
  Tile tile;
  Barrier full;
};

// All bytes of every tile of a tensor, in their order in shared memory: [B, H, blocks, bytes / 2].
template <class Tile>
__global__ void load_tiles(const __grid_constant__ CUtensorMap map, std::uint16_t* out) {
  auto& shared = shared_as<Loaded<Tile>>();
  constexpr int elements = Tile::bytes / 2;
  auto* const raw = reinterpret_cast<std::uint16_t*>(shared.tile.data);
  for (int i = threadIdx.x; i < elements; i += blockDim.x) raw[i] = 0xDEAD;
  publish_to_async_proxy();
  if (threadIdx.x == 0) {
    shared.full.init(1);
    barriers_are_ready();
  }
  __syncthreads();
  const int block = blockIdx.x;
  const int head = blockIdx.y;
  const int batch = blockIdx.z;
  if (threadIdx.x == 0) {
    prefetch(map);
    shared.full.arrive_and_expect(Tile::bytes);
    load(shared.tile, map, shared.full, block * Tile::rows, head, batch);
  }
  shared.full.wait(0);
  const int index = (batch * gridDim.y + head) * gridDim.x + block;
  for (int i = threadIdx.x; i < elements; i += blockDim.x) out[index * elements + i] = raw[i];
}

struct Shape {
  std::int64_t batch, context, heads, head_dim;
};

// The layout of heads within a larger tensor, such as q, k and v in a packed projection.
struct Layout {
  std::string name;
  std::int64_t batch_stride, row_stride, head_stride;
  std::int64_t first;  // the first element
  std::int64_t elements;
};

// A code for each row and column of a head, which also differs between heads.
std::uint16_t code(std::int64_t batch, std::int64_t row, std::int64_t head, std::int64_t col) {
  return static_cast<std::uint16_t>(5 * (row * 128 + col) + 7919 * (batch * 16 + head) + 1);
}

std::vector<std::uint16_t> coded_heads(const Shape& s, const Layout& l) {
  std::vector<std::uint16_t> codes(static_cast<std::size_t>(l.elements), 0xBEEF);
  for (int b = 0; b < s.batch; ++b) {
    for (int t = 0; t < s.context; ++t) {
      for (int h = 0; h < s.heads; ++h) {
        const std::int64_t row =
            l.first + b * l.batch_stride + t * l.row_stride + h * l.head_stride;
        for (int c = 0; c < s.head_dim; ++c) {
          codes[static_cast<std::size_t>(row + c)] = code(b, t, h, c);
        }
      }
    }
  }
  return codes;
}

template <class Tile>
std::vector<std::uint16_t> expected_tiles(const Shape& s, int blocks) {
  std::vector<std::uint16_t> tiles;
  for (int i = 0; i < s.batch * s.heads * blocks; ++i) {
    const int block = i % blocks;
    const auto first = static_cast<std::ptrdiff_t>(tiles.size());
    tiles.resize(tiles.size() + Tile::bytes / 2, 0);
    for (int r = 0; r < Tile::rows && block * Tile::rows + r < s.context; ++r) {
      for (int c = 0; c < s.head_dim; ++c) {
        const std::int64_t head = i / blocks;
        tiles[static_cast<std::size_t>(first + Tile::offset(r, c) / 2)] =
            code(head / s.heads, block * Tile::rows + r, head % s.heads, c);
      }
    }
  }
  return tiles;
}

template <class T, int Rows, int Cols>
void expect_loads(const Layout& l, const Shape& shape) {
  using Tile = SharedTile<T, Rows, Cols>;
  // One block more than the tensor has, which is all zeros.
  const auto blocks = static_cast<int>(shape.context / Rows + 2);
  const DeviceArray<std::uint16_t> x(coded_heads(shape, l));
  const TensorInMemory heads{.data = x.get() + l.first,
                             .sizes = {shape.head_dim, shape.context, shape.heads, shape.batch},
                             .strides = {l.row_stride, l.head_stride, l.batch_stride}};
  const std::vector<std::uint16_t> want = expected_tiles<Tile>(shape, blocks);
  const DeviceArray<std::uint16_t> out(std::vector<std::uint16_t>(want.size(), 0xBAD1));
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(shape.heads),
                  static_cast<unsigned>(shape.batch));
  launch({.blocks = grid, .threads = 128, .shared_bytes = sizeof(Loaded<Tile>)}, load_tiles<Tile>,
         tensor_map(heads, Rows, Cols), out.get());
  CUDA_CHECK(cudaDeviceSynchronize());
  expect_same(out.read(), want, Tile::panel_cols,
              l.name + ", tile of " + std::to_string(Rows) + " x " + std::to_string(Cols));
}

template <class T, int Cols>
void expect_loads() {
  constexpr std::int64_t B = 2;
  constexpr std::int64_t rows = 200;
  constexpr std::int64_t H = 3;
  constexpr std::int64_t d = Cols;
  const Shape shape{.batch = B, .context = rows, .heads = H, .head_dim = d};
  const std::array<Layout, 3> layouts = {
      {{"[B, T, H, d]", rows * H * d, H * d, d, 0, B * rows * H * d},
       {"k of [B, T, 3, H, d]", rows * 3 * H * d, 3 * H * d, d, H * d, B * rows * 3 * H * d},
       {"[B, H, T, d]", H * rows * d, d, rows * d, 0, B * H * rows * d}}};
  for (const Layout& l : layouts) {
    expect_loads<T, 64, Cols>(l, shape);
    expect_loads<T, 128, Cols>(l, shape);
    expect_loads<T, 96, Cols>(l, shape);
    expect_loads<T, 192, Cols>(l, shape);
  }
}

template <class T>
class HopperLoads : public Hopper {};
using Types = ::testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(HopperLoads, Types);

TYPED_TEST(HopperLoads, TilesOfStridedHeadsBitForBitAndZerosBeyond) {
  expect_loads<TypeParam, 16>();
  expect_loads<TypeParam, 32>();
  expect_loads<TypeParam, 64>();
  expect_loads<TypeParam, 80>();
  expect_loads<TypeParam, 128>();
}

}  // namespace
}  // namespace paceline
