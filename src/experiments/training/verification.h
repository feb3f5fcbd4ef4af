#pragma once
// --verify: data-parallel training held against a single process that trains on the whole batch.

#include <string>
#include <vector>

#include "core/world.h"
#include "record/case_record.h"

namespace paceline {

// A tensor's values on the host, by the reference's name.
struct NamedValues {
  std::string name;
  std::vector<float> values;
};
using Snapshot = std::vector<NamedValues>;

// What training on one batch leaves.
struct Trained {
  Snapshot gradients;  // of the first step; AdamW's training only
  Snapshot weights;    // after the last step
};

// A tensor's errors, each over the allowed error: above 1 it fails.
struct TensorErrors {
  std::string name;
  double gradient = 0;        // the largest of an element
  double sgd = 0;             // likewise
  double adamw = 0;           // of the relative L2 distance
  double adamw_distance = 0;  // that distance itself
};

// Compares the ranks' training with single-process training, tensor by tensor. Ranks round
// differently from one process, and training may amplify a rounding without bound: AdamW where a
// gradient is near zero, SGD where its step is too long. The allowed error is therefore the noise
// of single-process training: single[0] trains on the rows in the ranks' order; the other runs
// permute the rows and start from weights one unit in the last place away. The noise of a tensor is
// the largest difference between two of these runs. Both calls throw InternalError for fewer than
// two.
class Verification {
 public:
  // Weights: |a - b| <= atol + rtol |b|, or 8 times the noise where that is more.
  void add_sgd(const Trained& together, const std::vector<Trained>& single);
  // Gradients: |a - b| <= rtol |b| + 8 times the noise. Weights: a relative L2 distance of at most
  // 8 times the noise.
  void add_adamw(const Trained& together, const std::vector<Trained>& single);
  // Ranks hold different bits.
  void ranks_differ() { ranks_differ_ = true; }

  // ok; mismatch; diverged when the single process's own values are not finite.
  [[nodiscard]] Status status() const;
  // Why it is not ok.
  [[nodiscard]] std::string reason() const;
  // The table "check", a row for each tensor, and the summary's columns.
  void add_to(CaseRecord& record) const;

 private:
  std::vector<TensorErrors> tensors_;
  bool ranks_differ_ = false;
  bool diverged_ = false;
};

}  // namespace paceline
