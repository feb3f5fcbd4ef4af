#pragma once
// --verify: compares data-parallel training with a single process that trains on the whole batch.

#include <string>
#include <vector>

#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"
#include "experiments/training/training_case.h"
#include "measure/progress.h"
#include "model/weights_file.h"
#include "record/case_record.h"

namespace paceline {

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

// How far rounding alone moves the results of a single process, tensor by tensor: the largest
// difference between the first run, on the rows in the ranks' order, and runs that permute the rows
// and start from weights one unit in the last place away.
struct Noise {
  struct OfTensor {
    double gradient = 0;  // the largest difference of elements, as `weight`
    double weight = 0;
    double distance = 0;  // of weights: relative L2
  };

  void add(const Trained& run, const Trained& first);

  std::vector<OfTensor> tensors;
  bool is_finite = true;
};

// Compares the ranks' training with single-process training, tensor by tensor. Ranks round
// differently from one process, and training may amplify a rounding without bound: AdamW where a
// gradient is near zero, SGD where its step is too long. The allowed error is therefore a multiple
// of the noise of single-process training.
//
// Both comparisons may be repeated with more noise, and return whether every error is allowed. The
// noise is that of at least one further run.
class TrainingComparison {
 public:
  // Weights: |a - b| <= atol + rtol |b|, or 8 times the noise where that is more.
  bool compare_sgd(const Trained& parallel, const Trained& single, const Noise& noise);
  // Gradients: |a - b| <= rtol |b| + 8 times the noise. Weights: a relative L2 distance of at most
  // 8 times the noise.
  bool compare_adamw(const Trained& parallel, const Trained& single, const Noise& noise);
  // Records that the ranks' results are not bitwise equal.
  void ranks_differ() { ranks_differ_ = true; }

  // ok, mismatch, or diverged: the values of single-process training are not finite.
  [[nodiscard]] Status status() const;
  // The reason for a status other than ok.
  [[nodiscard]] std::string reason() const;
  // Adds the table "check", one row per tensor, and the summary's columns.
  void add_to(CaseRecord& record) const;

 private:
  void begin(const Trained& single, const Noise& noise);
  // The tensor with the largest error.
  [[nodiscard]] const TensorErrors& worst(double TensorErrors::*error) const;

  std::vector<TensorErrors> tensors_;
  bool ranks_differ_ = false;
  bool diverged_ = false;
};

// On rank 0, what a single process has trained. It serves all cases of a small model that differ
// only in how ranks exchange.
struct SingleProcess {
  struct Runs {
    Trained first;
    std::vector<Noise> noise;  // noise[n]: of n + 1 further runs
  };

  TrainingCase of;
  Runs sgd;
  Runs adamw;
};

// Collective. --verify: checks that gradients and weights equal those of a single process that
// trains on the whole batch. Every rank trains on its rows; then rank 0 trains on all rows, several
// times unless `single` has these runs from the case before, while the other ranks wait. Only one
// model is in memory at a time. The record has the table "check", the summary's columns and a
// status that is equal on all ranks: ok, mismatch, diverged or oom.
[[nodiscard]] CaseRecord verify_training(TrainingCase c, World& world, Device& device,
                                         const ProcessGroup& data_parallel, SingleProcess& single,
                                         Progress& progress);

}  // namespace paceline
