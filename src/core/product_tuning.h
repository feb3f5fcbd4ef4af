#pragma once
// ProductTuning: the algorithms by which Ops computes its matrix products, where it times several
// of them, and how the ranks of a launch agree on them.

#include <cstdint>
#include <string>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

// How one product c (+)= op(a) op(b) is computed.
struct TunedProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;    // products in all
  std::string dtypes;        // "bfloat16 -> float32"
  std::string transposed;    // "no", "a", "b" or "both"
  bool adds = false;         // c += instead of c =
  int multiprocessors = 0;   // beside collectives: what they leave; 0: all
  std::string algorithm;     // the library's numbers of it
  std::string source;        // of the choice: "timed", "file" or "rank 0"
  int candidates = 0;        // that were timed for it; 0: none, it is the library's first proposal
  double first_seconds = 0;  // the library's first proposal took; NaN where nothing was timed
  double seconds = 0;        // the choice took; NaN likewise

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(batch);
  }
};

class ProductTuning : NonCopyable {
 public:
  virtual ~ProductTuning() = default;

  // Every choice made or read so far, for take() of another rank.
  [[nodiscard]] virtual std::string choices() const = 0;
  // From now on products are computed by those choices. Products that are not among them keep their
  // own, as do all where the text is from another kind of GPU or version of the library. True when
  // one of products() is computed otherwise from now on: run it once before it is captured into a
  // graph, since a kernel is loaded when it is first run.
  virtual bool take(const std::string& choices) = 0;

  // Of the products computed so far.
  [[nodiscard]] virtual std::vector<TunedProduct> products() const = 0;
  // Spent on timing algorithms.
  [[nodiscard]] virtual double seconds() const = 0;
};

}  // namespace paceline
