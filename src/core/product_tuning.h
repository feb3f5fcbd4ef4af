#pragma once
// ProductTuning: the algorithms that Ops has chosen for its matrix products by timing several
// candidates, and how the ranks of a launch agree on the choices.

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
  std::int64_t batch = 1;    // number of products
  std::string dtypes;        // "bfloat16 -> float32"
  std::string transposed;    // "no", "a", "b" or "both"
  bool adds = false;         // c += a b; false: c = a b
  int multiprocessors = 0;   // available beside collectives; 0: all
  std::string algorithm;     // the library's identifiers
  std::string source;        // origin of the choice: "timed", "file" or "rank 0"
  int candidates = 0;        // timed; 0: none, the library's first proposal is used
  double first_seconds = 0;  // time of the library's first proposal; NaN if nothing was timed
  double seconds = 0;        // time of the chosen algorithm; NaN likewise

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(batch);
  }
};

class ProductTuning : NonCopyable {
 public:
  virtual ~ProductTuning() = default;

  // All choices made or read so far, as text for another rank's take().
  [[nodiscard]] virtual std::string choices() const = 0;
  // Uses `choices` from now on. Products without an entry keep their choice; so do all products if
  // the text is from another GPU model or library version. Returns true if the algorithm of any of
  // products() has changed: the caller then runs that product once before it captures it into a
  // graph, because a kernel is loaded at its first launch.
  virtual bool take(const std::string& choices) = 0;

  // The products computed so far.
  [[nodiscard]] virtual std::vector<TunedProduct> products() const = 0;
  // Time spent on timing algorithms.
  [[nodiscard]] virtual double seconds() const = 0;
};

}  // namespace paceline
