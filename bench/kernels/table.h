#pragma once
#include <benchmark/benchmark.h>

namespace paceline {

// A console report with units and shares in the usual notation. Google Benchmark's own shows a
// share of 0.93 as "930m" and hides rates among the counters.
class Table final : public benchmark::ConsoleReporter {
 public:
  Table() : ConsoleReporter(OO_None) {}

 protected:
  void PrintHeader(const Run& run) override;
  void PrintRunData(const Run& run) override;
};

}  // namespace paceline
