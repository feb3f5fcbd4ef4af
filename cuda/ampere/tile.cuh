#pragma once
// Tiles in shared memory: [rows, columns] elements of an Arithmetic, swizzled, with one plane for
// each of its parts. A tile is copied from a head in global memory or filled with sums, and read as
// an operand of a product, by rows or by columns.

#include "cuda/ampere/fragment.cuh"
#include "cuda/ampere/swizzle.h"

namespace paceline {

// One head [rows, d] in global memory. The d elements of a row are contiguous and start at a
// multiple of 16 bytes.
template <class E>
struct HeadRows {
  E* data;
  std::int64_t part_stride;  // elements from one part to the next
  int row_stride;
  int rows;

  __device__ E* row(int part, int i) const {
    return data + part * part_stride + static_cast<std::int64_t>(i) * row_stride;
  }
};

// Heads [B, T, H, d], as kernel arguments.
template <class E>
struct StridedHeads {
  E* data;
  std::int64_t batch_stride;
  std::int64_t head_stride;
  std::int64_t part_stride;
  int row_stride;

  __device__ HeadRows<E> head(int b, int h, int rows) const {
    return {data + b * batch_stride + h * head_stride, part_stride, row_stride, rows};
  }
};

template <class Tile>
struct RowsOf;
template <class Tile>
struct ColumnsOf;

template <class Arithmetic_, int rows_, int columns_>
class SharedTile {
 public:
  using Arithmetic = Arithmetic_;
  using Element = typename Arithmetic::Element;
  using Layout = Swizzle<columns_ * sizeof(Element), sizeof(Element)>;
  static constexpr int rows = rows_;
  static constexpr int columns = columns_;
  static constexpr int per_chunk = 16 / static_cast<int>(sizeof(Element));
  static constexpr int plane_bytes = rows * columns * static_cast<int>(sizeof(Element));
  static constexpr int bytes = plane_bytes * Arithmetic::parts;

  __device__ explicit SharedTile(SharedAddress memory) : memory_(memory) {}

  [[nodiscard]] __device__ SharedAddress plane(int part) const {
    return memory_ + part * plane_bytes;
  }

  [[nodiscard]] __device__ SharedAddress element(int row, int column) const {
    return memory_ + Layout::offset(static_cast<unsigned>(row), static_cast<unsigned>(column));
  }

  // The tile as an operand, from this row or column on.
  [[nodiscard]] __device__ RowsOf<SharedTile> from_row(int first) const {
    return {*this, first, read_lane_id()};
  }
  [[nodiscard]] __device__ ColumnsOf<SharedTile> from_column(int first) const {
    return {*this, first, read_lane_id()};
  }

  // Starts to copy the head's rows first ... first + rows - 1. Rows past its end become 0.
  template <int threads>
  __device__ void start_copy(const HeadRows<const Element>& from, int first) const {
    for_each_chunk<threads>(from, first,
                            [](SharedAddress shared, const Element* global, bool present) {
                              copy_async(shared, global, present);
                            });
  }

  // Stores the tile to the head's rows from `first` on, as far as it has them.
  template <int threads>
  __device__ void store(const HeadRows<Element>& to, int first) const {
    for_each_chunk<threads>(to, first, [](SharedAddress shared, Element* global, bool present) {
      float4 x;
      load_shared(x, shared);
      if (present) *reinterpret_cast<float4*>(global) = x;
    });
  }

  // Writes a warp's sums to the tile from (row, column) on.
  template <int M, int N>
  __device__ void put(const Accumulator<M, N>& sums, int row, int column) const {
    using Pair = typename Arithmetic::Pair;
    const unsigned lane = read_lane_id();
    const unsigned lane_column = static_cast<unsigned>(column) + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const auto start = Layout::start(static_cast<unsigned>(row) + lane / 4,
                                       (lane_column + n % 2 * 8) / per_chunk);
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Pair pair[Arithmetic::parts];
          Arithmetic::pack(sums.x[m][n][2 * half], sums.x[m][n][2 * half + 1], pair);
#pragma unroll
          for (int part = 0; part < Arithmetic::parts; ++part) {
            store_shared(plane(part) + start.further(16 * m + 8 * half, n / 2 * 16 / per_chunk) +
                             lane_column % per_chunk * sizeof(Element),
                         pair[part]);
          }
        }
      }
    }
  }

 private:
  // Calls f(address of the chunk in the tile, in the head, whether the head has the row).
  // Neighbouring threads take neighbouring chunks of whole rows; threads left over are idle.
  template <int threads, class E, class F>
  __device__ void for_each_chunk(const HeadRows<E>& head, int first, F f) const {
    constexpr int of_row = columns / per_chunk;
    constexpr int rows_at_once = threads / of_row;
    const auto thread = static_cast<unsigned>(threadIdx.x);
    const unsigned chunk = thread % of_row;
    const unsigned row = thread / of_row;
    if (threads % of_row != 0 && row == rows_at_once) return;
#pragma unroll
    for (int part = 0; part < Arithmetic::parts; ++part) {
      E* const global = head.data + part * head.part_stride;
      int offset =
          (first + static_cast<int>(row)) * head.row_stride + static_cast<int>(chunk) * per_chunk;
      int rows_left = head.rows - first - static_cast<int>(row);
#pragma unroll 2
      for (int i = 0; i < rows; i += rows_at_once) {
        if (rows % rows_at_once == 0 || i + row < rows) {
          const unsigned shared = rows_at_once % 8 == 0 ? Layout::start(row, chunk).further(i, 0)
                                                        : Layout::chunk_offset(i + row, chunk);
          f(plane(part) + shared, global + offset, rows_left > 0);
        }
        offset += rows_at_once * head.row_stride;
        rows_left -= rows_at_once;
      }
    }
  }

  SharedAddress memory_;
};

// The row that this lane addresses for the four matrices of ldmatrix. downwards: matrices 0 and 1
// are below one another, 2 and 3 to their right. sideways: 0 and 1 are side by side, 2 and 3 below.
struct MatrixOffset {
  unsigned row;
  unsigned chunk;
};
__device__ inline MatrixOffset downwards(unsigned lane) { return {lane % 16, lane / 16}; }
__device__ inline MatrixOffset sideways(unsigned lane) {
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2};
}

// Rows of a tile as A [m, k] = tile[first + m, k] or B [k, n] = tile[first + n, k].
template <class Tile>
struct RowsOf {
  using Arithmetic = typename Tile::Arithmetic;
  using Layout = typename Tile::Layout;
  static constexpr Order order = Order::natural;
  Tile tile;
  int first;      // a multiple of 8
  unsigned lane;  // addresses are recomputed for each product, to save registers

  [[nodiscard]] __device__ FragmentA<Arithmetic::pieces> a(int m, int k) const {
    FragmentA<Arithmetic::pieces> x;
#pragma unroll
    for (int p = 0; p < Arithmetic::pieces; ++p) {
      load_matrices(x.x[p], address(downwards(lane), p, 16 * m, 16 * k));
    }
    return x;
  }
  template <int N8, Order>
  [[nodiscard]] __device__ FragmentB<Arithmetic::pieces, N8> b(int n, int k) const {
    FragmentB<Arithmetic::pieces, N8> x;
#pragma unroll
    for (int p = 0; p < Arithmetic::pieces; ++p) {
      load_matrices(x.x[p], address(sideways(lane), p, 8 * n, 16 * k));
    }
    return x;
  }

 private:
  // A piece is a part (a plane of its own), or the next 8 columns.
  [[nodiscard]] __device__ SharedAddress address(MatrixOffset mine, int piece, int rows,
                                                 int columns) const {
    constexpr bool is_part = Arithmetic::parts == Arithmetic::pieces;
    const auto start = Layout::start(static_cast<unsigned>(first) + mine.row, mine.chunk);
    return tile.plane(is_part ? piece : 0) +
           start.further(rows, columns / Tile::per_chunk + (is_part ? 0 : 2 * piece));
  }
};

// Columns of a tile as A [m, k] = tile[k, first + m] or B [k, n] = tile[k, first + n].
template <class Tile>
struct ColumnsOf {
  using Arithmetic = typename Tile::Arithmetic;
  using Layout = typename Tile::Layout;
  static constexpr Order order = Order::natural;
  static constexpr bool by_matrices = sizeof(typename Tile::Element) == 2;
  Tile tile;
  int first;      // a multiple of 8
  unsigned lane;  // addresses are recomputed for each product, to save registers

  [[nodiscard]] __device__ FragmentA<Arithmetic::pieces> a(int m, int k) const {
    FragmentA<Arithmetic::pieces> x;
#pragma unroll
    for (int p = 0; p < Arithmetic::pieces; ++p) {
      if constexpr (by_matrices) {
        load_matrices_transposed(x.x[p], address(sideways(lane), p, 16 * k, 16 * m));
      } else {
        const int row = 16 * k + 8 * p;
        load_shared(x.x[p][0], word(lane % 4, row, 16 * m));
        load_shared(x.x[p][1], word(lane % 4, row, 16 * m + 8));
        load_shared(x.x[p][2], word(lane % 4 + 4, row, 16 * m));
        load_shared(x.x[p][3], word(lane % 4 + 4, row, 16 * m + 8));
      }
    }
    return x;
  }
  template <int N8, Order order_of_k>
  [[nodiscard]] __device__ FragmentB<Arithmetic::pieces, N8> b(int n, int k) const {
    FragmentB<Arithmetic::pieces, N8> x;
#pragma unroll
    for (int p = 0; p < Arithmetic::pieces; ++p) {
      if constexpr (by_matrices) {
        load_matrices_transposed(x.x[p], address(downwards(lane), p, 16 * k, 8 * n));
      } else {
        constexpr bool paired = order_of_k == Order::paired;
        const unsigned lane_row = lane % 4 * (paired ? 2 : 1);
#pragma unroll
        for (int i = 0; i < N8; ++i) {
          const int row = 16 * k + 8 * p;
          load_shared(x.x[p][2 * i], word(lane_row, row, 8 * (n + i)));
          load_shared(x.x[p][2 * i + 1], word(lane_row + (paired ? 1 : 4), row, 8 * (n + i)));
        }
      }
    }
    return x;
  }

 private:
  [[nodiscard]] __device__ SharedAddress address(MatrixOffset mine, int piece, int rows,
                                                 int columns) const {
    const auto start =
        Layout::start(mine.row, static_cast<unsigned>(first) / Tile::per_chunk + mine.chunk);
    return tile.plane(piece) + start.further(rows, columns / Tile::per_chunk);
  }
  // The address of one element, in the column of the lane's group.
  [[nodiscard]] __device__ SharedAddress word(unsigned lane_row, int rows, int columns) const {
    const auto column = static_cast<unsigned>(first) + lane / 4;
    const auto start = Layout::start(lane_row, column / Tile::per_chunk);
    return tile.plane(0) + column % Tile::per_chunk * sizeof(float) +
           start.further(rows, columns / Tile::per_chunk);
  }
};

// Sums as an operand A [m, k] in the same registers.
template <class Arithmetic_, int M, int N>
struct SumsAsOperand {
  using Arithmetic = Arithmetic_;
  static constexpr Order order = Arithmetic::from_sums;
  const Accumulator<M, N>& sums;

  [[nodiscard]] __device__ FragmentA<Arithmetic::pieces> a(int m, int k) const {
    return Arithmetic::operand(sums.x[m][2 * k], sums.x[m][2 * k + 1]);
  }
};

template <class Arithmetic, int M, int N>
__device__ inline SumsAsOperand<Arithmetic, M, N> as_operand(const Accumulator<M, N>& sums) {
  return {sums};
}

// sums += A B over k = 0 ... depth - 1, by one warp.  [16 M, 8 N], [16 M, depth], [depth, 8 N]
template <int depth, int M, int N, class A, class B>
__device__ inline void add_product(Accumulator<M, N>& sums, const A& a, const B& b) {
  using Arithmetic = typename A::Arithmetic;
  static_assert(depth % 16 == 0);
#pragma unroll
  for (int k = 0; k < depth / 16; ++k) {
    FragmentA<Arithmetic::pieces> rows[M];
#pragma unroll
    for (int m = 0; m < M; ++m) rows[m] = a.a(m, k);
#pragma unroll
    for (int pair = 0; pair < N / 2; ++pair) {
      const int n = 2 * pair;
      const auto columns = b.template b<2, A::order>(n, k);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        Arithmetic::multiply(sums.x[m][n], rows[m], columns, 0);
        Arithmetic::multiply(sums.x[m][n + 1], rows[m], columns, 1);
      }
    }
    if constexpr (N % 2 == 1) {
      const auto columns = b.template b<1, A::order>(N - 1, k);
#pragma unroll
      for (int m = 0; m < M; ++m) Arithmetic::multiply(sums.x[m][N - 1], rows[m], columns, 0);
    }
  }
}

// The same for sums that accumulate over tiles. With sums_by_tile the product of each tile starts
// at 0 and is added to the sums.
template <int depth, int M, int N, class A, class B>
__device__ inline void add_tile_product(Accumulator<M, N>& sums, const A& a, const B& b) {
  using Arithmetic = typename A::Arithmetic;
  if constexpr (!Arithmetic::sums_by_tile) {
    add_product<depth>(sums, a, b);
  } else {
    static_assert(depth % 16 == 0 && N % 2 == 0);
    FragmentA<Arithmetic::pieces> rows[depth / 16][M];
#pragma unroll
    for (int k = 0; k < depth / 16; ++k) {
#pragma unroll
      for (int m = 0; m < M; ++m) rows[k][m] = a.a(m, k);
    }
    // Pairs are independent, so that several are in flight.
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      Accumulator<M, 2> tile;
      tile.clear();
#pragma unroll
      for (int k = 0; k < depth / 16; ++k) {
        const auto columns = b.template b<2, A::order>(n, k);
#pragma unroll
        for (int m = 0; m < M; ++m) {
          Arithmetic::multiply(tile.x[m][0], rows[k][m], columns, 0);
          Arithmetic::multiply(tile.x[m][1], rows[k][m], columns, 1);
        }
      }
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int i = 0; i < 8; ++i) sums.x[m][n + i / 4][i % 4] += tile.x[m][i / 4][i % 4];
      }
    }
  }
}

}  // namespace paceline
