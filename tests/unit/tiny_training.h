#pragma once
// A training case that runs in milliseconds, as a base for tests.

#include <string_view>

#include "experiments/training/training_case.h"

namespace paceline {

// D 32, F 64, L 3, H 2, V 31; two rows of 16 tokens; one rank.
inline TrainingCase tiny_training(std::string_view precision) {
  TrainingCase c;
  c.precision = precision_named(precision);
  c.vocab = 31;
  c.context = 16;
  c.d_model = 32;
  c.d_ff = 64;
  c.layers = 3;
  c.heads = 2;
  c.batch_size = 2;
  c.seed = 3;
  c.ranks = 1;
  return c;
}

}  // namespace paceline
