#pragma once
// Sets masked scores to -infinity: those of keys past the end and, when causal, of keys after their
// query. Sums is Accumulator or ThreadSums. Queries past the end see at least one key, so that no
// row is without one.

namespace paceline {

// The number of keys that a query sees, from key 0 on.
__device__ inline int keys_seen(int query, int context, bool causal) {
  return causal ? min(query + 1, context) : context;
}

// Whether a query from `first_query` on does not see one of the keys before `end`.
__device__ inline bool any_masked(int first_query, int end, int context, bool causal) {
  return end > keys_seen(first_query, context, causal);
}

// S [queries, keys]
template <class Sums>
__device__ inline void mask_scores(Sums& s, int first_query, int first_key, int context,
                                   bool causal) {
  s.for_each([&](float& x, int row, int column) {
    if (first_key + column >= keys_seen(first_query + row, context, causal)) x = -INFINITY;
  });
}

// S^T [keys, queries]
template <class Sums>
__device__ inline void mask_transposed_scores(Sums& s, int first_key, int first_query, int context,
                                              bool causal) {
  s.for_each([&](float& x, int row, int column) {
    if (first_key + row >= keys_seen(first_query + column, context, causal)) x = -INFINITY;
  });
}

}  // namespace paceline
