#pragma once
// Shared by bare_mpi and bare_nccl: takes samples, reduces each to its maximum over ranks, and
// prints one JSON line.

#include <fmt/format.h>
#include <mpi.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "measure/statistics.h"

namespace paceline::bare {

inline std::string json(double value) {
  return std::isnan(value) ? "null" : fmt::format("{}", value);
}

// sample() is one repetition and returns this rank's seconds. Collective.
template <class Sample>
void measure(const char* software, std::size_t bytes, int steps, Sample sample) {
  constexpr int warmup = 5;
  for (int i = 0; i < warmup; ++i) (void)sample();
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) seconds.push_back(sample());
  MPI_Allreduce(MPI_IN_PLACE, seconds.data(), steps, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank != 0) return;
  const Summary s = summarize(seconds);
  fmt::print(
      "{{\"software\": \"{}\", \"variant\": \"bare\", \"op\": \"all_reduce\", \"ranks\": {}, "
      "\"bytes\": {}, \"steps\": {}, \"time_median_s\": {}, \"time_ci_low_s\": {}, "
      "\"time_ci_high_s\": {}}}\n",
      software, ranks, bytes, steps, s.median, json(s.ci_low), json(s.ci_high));
  std::fflush(stdout);
}

}  // namespace paceline::bare
