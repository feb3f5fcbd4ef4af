#pragma once
// --verify: compares data-parallel training with a single process that trains on the whole batch.

#include <string>
#include <vector>

#include "core/world.h"
#include "record/case_record.h"

namespace paceline {

// A tensor's values on the host and its state-dict name.
struct NamedValues {
  std::string name;
  std::vector<float> values;
};
using Snapshot = std::vector<NamedValues>;

// The results of training on one batch.
struct Trained {
  Snapshot gradients;  // of the first step; AdamW's training only
  Snapshot weights;    // after the last step
};

// Errors of a tensor, each divided by the allowed error; a value above 1 fails.
struct TensorErrors {
  std::string name;
  double gradient = 0;        // of gradients: the largest over elements
  double sgd = 0;             // of weights after SGD: the largest over elements
  double adamw = 0;           // of weights after AdamW: relative L2 distance over the allowed one
  double adamw_distance = 0;  // the relative L2 distance itself
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
  void add_sgd(const Trained& parallel, const std::vector<Trained>& single);
  // Gradients: |a - b| <= rtol |b| + 8 times the noise. Weights: a relative L2 distance of at most
  // 8 times the noise.
  void add_adamw(const Trained& parallel, const std::vector<Trained>& single);
  // Records that the ranks' results are not bitwise equal.
  void ranks_differ() { ranks_differ_ = true; }

  // ok, mismatch, or diverged: the values of single-process training are not finite.
  [[nodiscard]] Status status() const;
  // The reason for a status other than ok.
  [[nodiscard]] std::string reason() const;
  // Adds the table "check", one row per tensor, and the summary's columns.
  void add_to(CaseRecord& record) const;

 private:
  std::vector<TensorErrors> tensors_;
  bool ranks_differ_ = false;
  bool diverged_ = false;
};

}  // namespace paceline
