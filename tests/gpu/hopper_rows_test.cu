// The row operations of attention: storing rows to global memory, and online softmax.

#include <array>
#include <cmath>
#include <initializer_list>
#include <random>
#include <utility>

#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/store_rows.cuh"
#include "tests/gpu/hopper_mma_test.cuh"

namespace paceline {
namespace {

using namespace hopper;
using HopperRows = Hopper;

// ---- storing -----------------------------------------------------------------------------------

__global__ void transpose_quads(const std::uint32_t* x, std::uint32_t* transposed) {
  std::uint32_t words[4];
  for (int i = 0; i < 4; ++i) words[i] = x[4 * threadIdx.x + i];
  transpose_in_quad(words);
  for (int i = 0; i < 4; ++i) transposed[4 * threadIdx.x + i] = words[i];
}

TEST_F(HopperRows, FourLanesExchangeTheirWords) {
  std::vector<std::uint32_t> x(4 * warpgroup_threads);
  std::vector<std::uint32_t> want(x.size());
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    x[i] = 1000 + i;
    want[i / 16 * 16 + i % 4 * 4 + i / 4 % 4] = x[i];
  }
  const DeviceArray<std::uint32_t> from(x);
  const DeviceArray<std::uint32_t> to(std::vector<std::uint32_t>(x.size(), 0));
  run(transpose_quads, 1, warpgroup_threads, 0, from.get(), to.get());
  expect_same(to.read(), want, 4, "words");
}

template <class T, int N>
__global__ void store(T* to, std::int64_t stride, const float* from, int first, int rows) {
  Accumulator<N> x;
  read(x, from);
  store_rows(to, stride, x, first, rows);
}

template <class T>
HostMatrix<T> distinct(int rows, int cols) {
  if constexpr (std::is_same_v<T, float>) {
    return filled<T>(rows, cols, [&](int r, int c) { return 0.1F + r * cols + c; });
  } else {
    return all_different<T>(rows, cols);
  }
}

template <class T, int N>
void expect_stored() {
  constexpr int margin = 8;
  constexpr int max_rows = 130;
  const HostMatrix<T> x = distinct<T>(64, N);
  const DeviceArray<float> from(
      filled<float>(64, N, [&](int r, int c) { return static_cast<float>(x(r, c)); }).at);
  for (const auto& [first, rows] :
       {std::pair{0, 1}, {0, 37}, {0, 64}, {0, 130}, {64, 64}, {64, 77}, {64, 127}, {64, 128}}) {
    for (const int stride : {N, N + 8, 3 * N + 16}) {
      HostMatrix<T> want =
          filled<T>(max_rows, stride, [](int, int) { return static_cast<T>(NAN); });
      const DeviceArray<T> to(want.at);
      const int offset = stride == N ? 0 : margin;  // of the first column
      for (int r = first; r < std::min(first + 64, rows); ++r) {
        for (int c = 0; c < N; ++c) want(r, offset + c) = x(r - first, c);
      }
      run(store<T, N>, 1, warpgroup_threads, 0, to.get() + offset,
          static_cast<std::int64_t>(stride), from.get(), first, rows);
      expect_same(to.read(), want.at, stride,
                  "N " + std::to_string(N) + ", rows " + std::to_string(first) + " to " +
                      std::to_string(rows) + ", stride " + std::to_string(stride));
    }
  }
}

template <class T, int... N>
void expect_all_stored(std::integer_sequence<int, N...>) {
  (expect_stored<T, N>(), ...);
}

TEST_F(HopperRows, AreStoredWhereTheyBelongAndNowhereElse) {
  using N = std::integer_sequence<int, 16, 32, 48, 64, 80, 96, 112, 128, 256>;
  expect_all_stored<__nv_bfloat16>(N{});
  expect_all_stored<__half>(N{});
  expect_all_stored<float>(N{});
}

// ---- softmax -----------------------------------------------------------------------------------

constexpr float not_rescaled = -1;

// Applies OnlineRows to scores [tiles, 64, N], in place. With a limit above 0, tiles after the
// first try update_without_max(). corrections [tiles, 64], or `not_rescaled`; ends [2, 64]: 1 / l
// and the logsumexp.
template <int N>
__global__ void online_softmax(float* scores, int tiles, float scale, float limit,
                               float* corrections, float* ends) {
  OnlineRows rows;
  const auto put = [](float* to, const RowPair<float>& x) {
    for (int h = 0; h < 2; ++h) {
      if (threadIdx.x % 4 == 0) to[Accumulator<N>::row() + 8 * h] = x.of[h];
    }
  };
  for (int t = 0; t < tiles; ++t) {
    Accumulator<N> s;
    RowPair<float> correction = {{not_rescaled, not_rescaled}};
    read(s, scores + t * 64 * N);
    if (t == 0 || limit == 0 || !rows.update_without_max(s, scale, limit, 1)) {
      read(s, scores + t * 64 * N);
      correction = rows.update(s, scale);
    }
    put(corrections + t * 64, correction);
    write(scores + t * 64 * N, s);
  }
  RowPair<float> logsumexp;
  put(ends, rows.finalize(logsumexp));
  put(ends + 64, logsumexp);
}

// Rows 1, 9, ... see no key. Other rows see none in their first or last tile, see a single key, or
// miss every third key. The rows of one warp see no key in two tiles.
bool sees(int row, int col, int n, int tiles) {
  if (row >= 48 && col < 2 * n) return false;
  switch (row % 8) {
    case 1: return false;
    case 2: return col >= n;
    case 3: return col < (tiles - 1) * n;
    case 4: return col == (37 * row) % (tiles * n);
    case 5: return (col + row) % 3 != 0;
    default: return true;
  }
}

struct OnlineResult {
  std::vector<float> powers;  // [tiles, 64, N]
  std::vector<float> corrections;
  std::vector<float> ends;
};

template <int N>
OnlineResult run_online(const HostMatrix<float>& scores, int tiles, float scale, float limit) {
  std::vector<float> in_tiles(scores.at.size());
  for (int r = 0; r < 64; ++r) {
    for (int c = 0; c < tiles * N; ++c) {
      in_tiles[static_cast<std::size_t>((c / N * 64 + r) * N + c % N)] = scores(r, c);
    }
  }
  const DeviceArray<float> s(in_tiles);
  const DeviceArray<float> corrections(std::vector<float>(static_cast<std::size_t>(64 * tiles)));
  const DeviceArray<float> ends(std::vector<float>(128));
  run(online_softmax<N>, 1, warpgroup_threads, 0, s.get(), tiles, scale, limit, corrections.get(),
      ends.get());
  return {s.read(), corrections.read(), ends.read()};
}

// The maximum of a row's scores in a tile, times the factor, and the sum of 2^(score - reference).
template <int N>
std::pair<double, double> top_and_sum(const HostMatrix<float>& scores, int row, int tile,
                                      float factor, double reference) {
  double top = -INFINITY;
  double sum = 0;
  for (int c = tile * N; c < (tile + 1) * N; ++c) {
    const double power = static_cast<double>(scores(row, c)) * factor;
    top = std::fmax(top, power);
    sum += std::exp2(power - reference);
  }
  return {top, sum};
}

// A tile raises the maximum and rescales all of its rows if its exponentials would otherwise reach
// the limit, or if a row has not seen a score before. Counts such tiles and the others, after the
// first.
struct Taken {
  int with_maximum = 0;
  int without = 0;
};
template <int N>
void expect_corrections(const OnlineResult& got, const HostMatrix<float>& scores, int tiles,
                        float factor, float limit, Taken& taken) {
  std::array<double, 64> reference;
  reference.fill(-INFINITY);
  for (int t = 0; t < tiles; ++t) {
    const float* const corrections = got.corrections.data() + t * 64;
    const bool without = corrections[0] == not_rescaled;
    double largest = 0;  // of the rows' sums: more than a thread's, which has a quarter
    bool unseen = false;
    for (int r = 0; r < 64; ++r) {
      double& before = reference.at(static_cast<std::size_t>(r));
      const auto [top, sum] = top_and_sum<N>(scores, r, t, factor, before);
      unseen = unseen || before == -INFINITY;
      largest = std::fmax(largest, sum);
      if (without) {
        EXPECT_EQ(corrections[r], not_rescaled) << "row " << r << ", tile " << t;
        EXPECT_LT(top, before + std::log2(limit) + 1e-5) << "row " << r << ", tile " << t;
      } else {
        const double after = std::fmax(before, top);
        const double want = after == -INFINITY ? 0 : std::exp2(before - after);
        EXPECT_NEAR(corrections[r], want, 1e-5 * want) << "row " << r << ", tile " << t;
        before = after;
      }
    }
    if (t == 0) continue;
    if (without) {
      EXPECT_FALSE(unseen) << "tile " << t;
    } else {
      EXPECT_TRUE(unseen || limit == 0 || largest > 0.9999 * limit) << "tile " << t;
    }
    (without ? taken.without : taken.with_maximum) += 1;
  }
}

// A row against softmax in float64; what came before a correction is multiplied with it.
template <int N>
void expect_row(const OnlineResult& got, const HostMatrix<float>& scores, int row, int tiles,
                double natural_scale) {
  const auto at = [](const std::vector<float>& x, int i) {
    return static_cast<double>(x[static_cast<std::size_t>(i)]);
  };
  double top = -INFINITY;
  for (int c = 0; c < scores.cols; ++c) top = std::fmax(top, natural_scale * scores(row, c));
  double sum = 0;
  for (int c = 0; c < scores.cols && top > -INFINITY; ++c) {
    sum += std::exp(natural_scale * scores(row, c) - top);
  }
  const double logsumexp = at(got.ends, 64 + row);
  if (sum == 0) {
    EXPECT_EQ(logsumexp, -INFINITY) << "row " << row;
  } else {
    EXPECT_NEAR(logsumexp, top + std::log(sum), 1e-5 * (1 + std::abs(top))) << "row " << row;
  }
  double later = sum == 0 ? 1 : at(got.ends, row);
  for (int t = tiles - 1; t >= 0; --t) {
    for (int c = 0; c < N; ++c) {
      const double score = scores(row, t * N + c);
      const double want = sum == 0 ? 0 : std::exp(natural_scale * score - top) / sum;
      const double power = at(got.powers, (t * 64 + row) * N + c);
      ASSERT_NEAR(power * later, want, 3e-5 * want + 1e-30)
          << "row " << row << ", key " << t * N + c;
    }
    const double correction = at(got.corrections, t * 64 + row);
    if (correction != not_rescaled) later *= correction;
  }
  // The correction of the first tile with a key clears what was before.
  EXPECT_EQ(later, 0) << "row " << row;
}

template <int N>
void expect_softmax(float spread, bool hidden, float limit, Taken& taken) {
  constexpr int tiles = 4;
  constexpr double natural_scale = 0.3;
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, spread);
  const HostMatrix<float> scores = filled<float>(64, tiles * N, [&](int r, int c) {
    const float drawn = normal(random);
    return !hidden || sees(r, c, N, tiles) ? drawn : -INFINITY;
  });
  const float factor = static_cast<float>(natural_scale) * log2e;
  const OnlineResult got = run_online<N>(scores, tiles, factor, limit);
  for (int r = 0; r < 64; ++r) expect_row<N>(got, scores, r, tiles, natural_scale);
  expect_corrections<N>(got, scores, tiles, factor, limit, taken);
}
Taken expect_softmax(std::initializer_list<float> spreads, bool hidden, float limit) {
  Taken taken;
  for (const float spread : spreads) {
    expect_softmax<64>(spread, hidden, limit, taken);
    expect_softmax<80>(spread, hidden, limit, taken);
    expect_softmax<96>(spread, hidden, limit, taken);
    expect_softmax<128>(spread, hidden, limit, taken);
  }
  return taken;
}

TEST_F(HopperRows, SoftmaxAsTheScoresComeIsTheWholeRows) {
  const Taken taken = expect_softmax({0.01F, 1.0F, 6.0F, 30.0F}, true, 0);
  EXPECT_EQ(taken.without, 0);
}

TEST_F(HopperRows, ScoresAreTakenWithoutTheirMaximumWhereNothingOverflows) {
  const Taken taken = expect_softmax({0.01F, 1.0F, 6.0F, 30.0F}, false, 0x1p14F);
  EXPECT_GT(taken.with_maximum, 5);
  EXPECT_GT(taken.without, 20);
  EXPECT_EQ(expect_softmax({0.01F, 30.0F}, false, 0x1p60F).with_maximum, 0);
}

TEST_F(HopperRows, ScoresAreTakenWithTheirMaximumWhereARowHasSeenNone) {
  EXPECT_EQ(expect_softmax({0.01F, 6.0F}, true, 0x1p60F).without, 0);
}

}  // namespace
}  // namespace paceline
