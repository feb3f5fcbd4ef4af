// FlashAttention-2 (Dao, arXiv:2307.08691) in plain C++: the oracle of every flash kernel. For each
// tile of queries, a loop over tiles of keys; no T x T matrix is ever in memory.
//
// Forward, algorithm 1. Per query row, over the tiles of keys, from m = -infinity, l = 0, O = 0:
//   S = scale q k^T, m' = max(m, max S), P = exp(S - m'), l = exp(m - m') l + sum P,
//   O = exp(m - m') O + P v;   at the end O /= l and L = m + log l.
// Backward, algorithm 2, with D = rowsum(dO O), P = exp(S - L) and dS = P (dO v^T - D):
//   dV = P^T dO, dQ = scale dS k, dK = scale dS^T q,
// in two passes, one over tiles of queries and one over tiles of keys. Each result is summed by one
// thread in a fixed order, at the cost of computing P and dS twice.

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_ops.h"
#include "cpu/rows.h"
#include "cpu/tiles.h"
#include "cpu/vector_exp.h"

namespace paceline {

namespace {

constexpr std::int64_t tile = 64;  // queries and keys: tiles [64, d <= 128] in float fit into L2

// The arguments of one call, common to all tiles.
struct Attention {
  Heads q, k, v;
  ScoreOptions scores;
  Rounding rounding;

  [[nodiscard]] std::int64_t tiles() const { return (q.context + tile - 1) / tile; }
  // Rows of the tile that starts at `first`.
  [[nodiscard]] std::int64_t rows(std::int64_t first) const {
    return std::min(tile, q.context - first);
  }
  // Keys [0, keys_end(last)) are visible to queries up to `last`; first_query(first) is the first
  // query to which key `first` is visible.
  [[nodiscard]] std::int64_t keys_end(std::int64_t last) const {
    return scores.causal ? last + 1 : q.context;
  }
  [[nodiscard]] std::int64_t first_query(std::int64_t first) const {
    return scores.causal ? first : 0;
  }
  // The number of keys visible to `query` in the tile of keys that starts at `first_key`.
  [[nodiscard]] std::int64_t visible(std::int64_t query, std::int64_t first_key) const {
    const std::int64_t n = rows(first_key);
    return scores.causal ? std::clamp<std::int64_t>(query - first_key + 1, 0, n) : n;
  }
};

// Calls work(b, h, first, scratch) for every tile of every head, in parallel; each thread has its
// own scratch.
template <class Scratch, class F>
void for_each_tile(const Attention& a, F work) {
  const std::int64_t tiles = a.tiles();
  const std::int64_t all = a.q.batch * a.q.heads * tiles;
#pragma omp parallel if (a.q.batch * a.q.heads * a.q.context * a.q.head_dim >= serial_below)
  {
    Scratch scratch;
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < all; ++i) {
      const std::int64_t head = i / tiles;
      work(head / a.q.heads, head % a.q.heads, i % tiles * tile, scratch);
    }
  }
}

template <class C>
struct ForwardScratch {
  Operand<C> q, k, v;  // k as columns
  Operand<C> p;        // S, then P
  Tile<C> o;
  std::vector<C> highest, sum;
};

// Replaces S by P in place; updates the running maxima and sums and rescales O.
template <class C>
void online_softmax(const Attention& a, std::int64_t first_query, std::int64_t first_key,
                    ForwardScratch<C>& t) {
  const auto scale = static_cast<C>(a.scores.scale);
  Tile<C>& s = t.p.high;
  for (std::int64_t i = 0; i < s.rows(); ++i) {
    const std::int64_t visible = a.visible(first_query + i, first_key);
    C* row = s.row(i);
    C& highest = t.highest[static_cast<std::size_t>(i)];
    C& sum = t.sum[static_cast<std::size_t>(i)];
    C above = highest;
#pragma omp simd reduction(max : above)
    for (std::int64_t j = 0; j < visible; ++j) {
      row[j] *= scale;
      above = row[j] > above ? row[j] : above;
    }
    C added = 0;
#pragma omp simd reduction(+ : added)
    for (std::int64_t j = 0; j < visible; ++j) {
      row[j] = vector_exp(row[j] - above);
      added += row[j];
    }
    std::fill(row + visible, row + s.cols(), C{});
    const C correction = vector_exp(highest - above);
    sum = sum * correction + added;
    highest = above;
    C* o = t.o.row(i);
#pragma omp simd
    for (std::int64_t j = 0; j < t.o.cols(); ++j) o[j] *= correction;
  }
}

template <class C>
void forward_tile(const Attention& a, const Heads& o, const Tensor& logsumexp, std::int64_t b,
                  std::int64_t h, std::int64_t first, ForwardScratch<C>& t) {
  const std::int64_t m = a.rows(first);
  t.q.load_rows(a.q, b, h, first, m, a.rounding);
  t.o.reset(m, o.head_dim);
  t.highest.assign(static_cast<std::size_t>(m), -std::numeric_limits<C>::infinity());
  t.sum.assign(static_cast<std::size_t>(m), C{});
  const std::int64_t end = a.keys_end(first + m - 1);
  for (std::int64_t key = 0; key < end; key += tile) {
    const std::int64_t n = a.rows(key);
    t.k.load_columns(a.k, b, h, key, n, a.rounding);
    t.v.load_rows(a.v, b, h, key, n, a.rounding);
    t.p.high.reset(m, n);
    add_product(t.p.high, t.q, t.k);
    online_softmax(a, first, key, t);
    t.p.round(a.rounding);
    add_product(t.o, t.p, t.v);
  }
  for (std::int64_t i = 0; i < m; ++i) {
    const C sum = t.sum[static_cast<std::size_t>(i)];
    C* row = t.o.row(i);
    for (std::int64_t j = 0; j < o.head_dim; ++j) row[j] /= sum;
    store(o.tensor, o.at(b, first + i, h), row, o.head_dim);
    set_element(logsumexp, (b * o.heads + h) * o.context + first + i,
                t.highest[static_cast<std::size_t>(i)] + std::log(sum));
  }
}

struct Gradient {
  Heads d_o;
  Tensor logsumexp;  // [B, H, T]
  Tensor delta;      // [B, H, T] D
};

template <class C>
struct BackwardScratch {
  Operand<C> q, k, k_columns, v_columns, d_o;
  Operand<C> p, ds;
  Tile<C> dp;
  std::vector<C> logsumexp, delta;  // of the queries
  Tile<C> dq, dk, dv;

  void load_queries(const Attention& a, const Gradient& g, std::int64_t b, std::int64_t h,
                    std::int64_t first) {
    const std::int64_t m = a.rows(first);
    q.load_rows(a.q, b, h, first, m, a.rounding);
    d_o.load_rows(g.d_o, b, h, first, m, a.rounding);
    const std::int64_t row = (b * a.q.heads + h) * a.q.context + first;
    logsumexp.resize(static_cast<std::size_t>(m));
    delta.resize(static_cast<std::size_t>(m));
    load(logsumexp.data(), g.logsumexp, row, m);
    load(delta.data(), g.delta, row, m);
  }
  void load_keys(const Attention& a, std::int64_t b, std::int64_t h, std::int64_t first) {
    const std::int64_t n = a.rows(first);
    k_columns.load_columns(a.k, b, h, first, n, a.rounding);
    v_columns.load_columns(a.v, b, h, first, n, a.rounding);
  }
};

// Computes P and dS for the loaded tiles of queries and keys.
template <class C>
void recompute(const Attention& a, std::int64_t first_query, std::int64_t first_key,
               BackwardScratch<C>& t) {
  const auto scale = static_cast<C>(a.scores.scale);
  const std::int64_t m = a.rows(first_query);
  const std::int64_t n = a.rows(first_key);
  t.p.high.reset(m, n);
  add_product(t.p.high, t.q, t.k_columns);
  t.dp.reset(m, n);
  add_product(t.dp, t.d_o, t.v_columns);
  t.ds.high.reset(m, n);
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t visible = a.visible(first_query + i, first_key);
    const C logsumexp = t.logsumexp[static_cast<std::size_t>(i)];
    const C delta = t.delta[static_cast<std::size_t>(i)];
    C* p = t.p.high.row(i);
    const C* dp = t.dp.row(i);
    C* ds = t.ds.high.row(i);
#pragma omp simd
    for (std::int64_t j = 0; j < visible; ++j) {
      p[j] = vector_exp(scale * p[j] - logsumexp);
      ds[j] = p[j] * (dp[j] - delta);
    }
    std::fill(p + visible, p + n, C{});
  }
  t.p.round(a.rounding);
  t.ds.round(a.rounding);
}

// Stores rows of a gradient, multiplied by `factor`.
template <class C>
void store_rows(const Heads& to, std::int64_t b, std::int64_t h, std::int64_t first, Tile<C>& from,
                C factor) {
  for (std::int64_t i = 0; i < from.rows(); ++i) {
    C* row = from.row(i);
    for (std::int64_t j = 0; j < from.cols(); ++j) row[j] *= factor;
    store(to.tensor, to.at(b, first + i, h), row, from.cols());
  }
}

template <class C>
void query_gradient(const Attention& a, const Gradient& g, const Heads& dq) {
  using Scratch = BackwardScratch<C>;
  for_each_tile<Scratch>(a, [&](std::int64_t b, std::int64_t h, std::int64_t first, Scratch& t) {
    const std::int64_t m = a.rows(first);
    t.load_queries(a, g, b, h, first);
    t.dq.reset(m, dq.head_dim);
    const std::int64_t end = a.keys_end(first + m - 1);
    for (std::int64_t key = 0; key < end; key += tile) {
      t.load_keys(a, b, h, key);
      t.k.load_rows(a.k, b, h, key, a.rows(key), a.rounding);
      recompute(a, first, key, t);
      add_product(t.dq, t.ds, t.k);
    }
    store_rows(dq, b, h, first, t.dq, static_cast<C>(a.scores.scale));
  });
}

template <class C>
void key_gradients(const Attention& a, const Gradient& g, const Heads& dk, const Heads& dv) {
  using Scratch = BackwardScratch<C>;
  for_each_tile<Scratch>(a, [&](std::int64_t b, std::int64_t h, std::int64_t first, Scratch& t) {
    const std::int64_t n = a.rows(first);
    t.load_keys(a, b, h, first);
    t.dk.reset(n, dk.head_dim);
    t.dv.reset(n, dv.head_dim);
    for (std::int64_t query = a.first_query(first); query < a.q.context; query += tile) {
      t.load_queries(a, g, b, h, query);
      recompute(a, query, first, t);
      add_transposed_product(t.dv, t.p, t.d_o);
      add_transposed_product(t.dk, t.ds, t.q);
    }
    store_rows(dk, b, h, first, t.dk, static_cast<C>(a.scores.scale));
    store_rows(dv, b, h, first, t.dv, C{1});
  });
}

// D = rowsum(dO O).  delta [B, H, T]
template <class C>
void compute_delta(const Tensor& delta, const Heads& d_o, const Heads& o) {
  const std::int64_t heads = o.batch * o.heads;
#pragma omp parallel if (heads * o.context >= serial_below)
  {
    Reader<C> d_os(d_o.tensor, o.head_dim);
    Reader<C> os(o.tensor, o.head_dim);
#pragma omp for collapse(2) schedule(static)
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t t = 0; t < o.context; ++t) {
        const C* x = d_os.read(d_o.at(head / o.heads, t, head % o.heads), o.head_dim);
        const C* y = os.read(o.at(head / o.heads, t, head % o.heads), o.head_dim);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < o.head_dim; ++j) sum += static_cast<double>(x[j]) * y[j];
        set_element(delta, head * o.context + t, static_cast<C>(sum));
      }
    }
  }
}

}  // namespace

FlashPlan CpuOps::flash_plan(const AttentionShape& /*shape*/) const {
  const FlashTiles tiles{"cpu", tile, tile};
  return {tiles, tiles};
}

void CpuOps::flash_attention(const Heads& o, const Tensor& logsumexp, const Heads& q,
                             const Heads& k, const Heads& v, const ScoreOptions& scores) {
  check_heads("flash_attention", {o, q, k, v}, logsumexp);
  const Attention a{q, k, v, scores, rounding_of(q.dtype(), config().fp32_attention)};
  with_compute_type({q.tensor}, [&]<class C>() {
    using Scratch = ForwardScratch<C>;
    for_each_tile<Scratch>(a, [&](std::int64_t b, std::int64_t h, std::int64_t first, Scratch& t) {
      forward_tile(a, o, logsumexp, b, h, first, t);
    });
  });
}

void CpuOps::flash_attention_backward(const Heads& dq, const Heads& dk, const Heads& dv,
                                      const Heads& d_o, const Heads& q, const Heads& k,
                                      const Heads& v, const Heads& o, const Tensor& logsumexp,
                                      const ScoreOptions& scores) {
  check_heads("flash_attention_backward", {dq, dk, dv, d_o, q, k, v, o}, logsumexp);
  const Attention a{q, k, v, scores, rounding_of(q.dtype(), config().fp32_attention)};
  with_compute_type({q.tensor}, [&]<class C>() {
    const Array delta = workspace(logsumexp.shape, logsumexp.dtype);
    compute_delta<C>(delta, d_o, o);
    const Gradient g{d_o, logsumexp, delta};
    query_gradient<C>(a, g, dq);
    key_gradients<C>(a, g, dk, dv);
  });
}

}  // namespace paceline
